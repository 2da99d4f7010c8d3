"""Importing: conversations that agents have on their machines, and making sessions of them."""

from __future__ import annotations

import asyncio

import msgspec

from farsteer.core.api import ConversationsResponse, ImportConversation
from farsteer.core.commands import ListConversations
from farsteer.core.errors import AgentError, ErrorCode, MachineOffline
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.session import SessionSpec, StoredConversation
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.services.creation import Creation, Creator
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import Store

SOURCE = "import"
_NO_SESSION = ""
"""The session of a call that goes to the machine itself."""


class Imports:
    def __init__(self, store: Store, machines: Machines, creator: Creator) -> None:
        self._store = store
        self._machines = machines
        self._creator = creator

    async def conversations(
        self, caller: Caller, machine_id: str, *, agent: str | None, directory: str | None, limit: int
    ) -> ConversationsResponse:
        """What an agent has stored there, newest first; with no agent named, what all that can tell have."""
        # It shows what is on a machine's disk and was never given to the hub: more than reading sessions.
        caller.require(Scope.WRITE)
        machine = await self._store.get_machine(caller.namespace, machine_id)
        if not machine.active:
            raise MachineOffline
        names = [agent] if agent is not None else [
            info.name for info in machine.agents if info.available and info.capabilities.import_history
        ]  # fmt: skip
        found = await asyncio.gather(
            *(
                self._list(
                    caller.namespace,
                    machine_id,
                    ListConversations(agent=name, directory=directory, limit=limit),
                )
                for name in names
            )
        )  # fmt: skip
        merged = sorted((one for each in found for one in each), key=lambda one: -one.updated_at)
        return ConversationsResponse(conversations=merged[:limit])

    async def _list(
        self, namespace: str, machine_id: str, wanted: ListConversations
    ) -> list[StoredConversation]:
        reply = await self._machines.call(namespace, machine_id, _NO_SESSION, wanted)
        try:
            return msgspec.convert(reply.result, list[StoredConversation])
        except msgspec.ValidationError as error:
            raise AgentError(
                f"the machine's answer cannot be read: {error}", code=ErrorCode.AGENT_PROTOCOL
            ) from None

    async def adopt(
        self, caller: Caller, machine_id: str, request: ImportConversation, *, idempotency_key: str | None = None
    ) -> Creation:  # fmt: skip
        """Make a session of a conversation, which goes on under the agent's own name for it."""
        caller.require(Scope.WRITE)

        async def prepare() -> SessionSpec:
            native = request.native_id
            return SessionSpec(
                id=native if is_uuid(native) and await self._store.is_session_id_unused(native) else new_id(),
                machine_id=machine_id,
                directory="",
                agent=request.agent,
                title=request.title,
                source=SOURCE,
                native_id=native,
            )

        asked = ("import", machine_id, request)
        return await self._creator.make(caller, prepare, asked, idempotency_key)
