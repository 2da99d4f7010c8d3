"""Imports: listing the conversations that agents have stored on a machine, and making sessions of them."""

from __future__ import annotations

import asyncio

from farsteer.core.api import ConversationsResponse, ImportConversation
from farsteer.core.commands import ListConversations
from farsteer.core.errors import MachineOffline
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.session import SessionSpec, StoredConversation
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.bounds import bounded_conversations
from farsteer.hub.services.creation import CreationResult, NewSession, SessionCreator
from farsteer.hub.store.base import Store

SOURCE = "import"
_NO_SESSION = ""
"""The session id of a command that goes to the machine itself."""


class Imports:
    def __init__(self, store: Store, links: MachineLinks, creator: SessionCreator) -> None:
        self._store = store
        self._links = links
        self._creator = creator

    async def conversations(
        self, caller: Caller, machine_id: str, *, agent: str | None, directory: str | None, limit: int
    ) -> ConversationsResponse:
        """Return stored conversations, newest first: of `agent`, or of all agents that can list theirs."""
        # WRITE, because this shows files of the machine that were never given to the hub.
        caller.require(Scope.WRITE)
        machine = await self._store.get_machine(caller.namespace, machine_id)
        if not machine.active:
            raise MachineOffline
        names = [agent] if agent is not None else [
            info.name for info in machine.agents if info.available and info.capabilities.import_history
        ]  # fmt: skip
        queries = [ListConversations(agent=name, directory=directory, limit=limit) for name in names]
        found = await asyncio.gather(
            *(self._list_conversations(caller.namespace, machine_id, query) for query in queries)
        )
        merged = sorted(
            (conversation for each in found for conversation in each),
            key=lambda conversation: -conversation.updated_at,
        )
        return ConversationsResponse(conversations=merged[:limit])

    async def _list_conversations(
        self, namespace: str, machine_id: str, query: ListConversations
    ) -> list[StoredConversation]:
        reply = await self._links.call(namespace, machine_id, _NO_SESSION, query)
        return bounded_conversations(reply.result, query.limit)

    async def import_conversation(
        self, caller: Caller, machine_id: str, request: ImportConversation, *, idempotency_key: str | None = None
    ) -> CreationResult:  # fmt: skip
        """Make a session of a stored conversation, which continues under its native id.

        Fails with Conflict (details `session`) if it is a session already. Raises as `SessionCreator.create` does.
        """
        caller.require(Scope.WRITE)

        async def make_spec() -> SessionSpec:
            native_id = request.native_id
            return SessionSpec(
                id=native_id
                if is_uuid(native_id) and await self._store.is_session_id_unused(native_id)
                else new_id(),
                machine_id=machine_id,
                directory="",
                agent=request.agent,
                title=request.title,
                source=SOURCE,
                native_id=native_id,
            )

        new = NewSession(("import", machine_id, request), make_spec)
        return await self._creator.create(caller, new, idempotency_key)
