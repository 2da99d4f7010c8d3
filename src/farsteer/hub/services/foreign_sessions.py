"""Sessions that a machine has and this hub never had. The owner adopts them or ends them.

What a machine says about them is a claim. A session is foreign only if no namespace of this hub has its id or ever had
it: a runner cannot name another's session to see it, to take it over or to end it.
"""

from __future__ import annotations

from farsteer.core.api import Done, SessionResponse
from farsteer.core.commands import Adopt, DescribeSessions
from farsteer.core.errors import MachineOffline, NotCapable, NotFound
from farsteer.core.foreign import ForeignSessionsResponse, ForeignSessionView, HeldSession
from farsteer.hub.auth.caller import MCP_SERVERS, Caller, Scope
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.bounds import bounded_held_sessions
from farsteer.hub.rules.view import session_view
from farsteer.hub.store.base import Store
from farsteer.link.messages import FOREIGN_PROTOCOL

_NO_SESSION = ""
"""The session id of a command that goes to the machine itself."""
_DESCRIBED = 100
"""How many sessions a machine describes in one answer."""


class ForeignSessions:
    def __init__(self, store: Store, links: MachineLinks, max_sessions: int) -> None:
        self._store = store
        self._links = links
        self._max_sessions = max_sessions

    async def list(self, caller: Caller, machine_id: str) -> ForeignSessionsResponse:
        """Return the foreign sessions of a machine, the one used last first."""
        # WRITE, because this shows what was never given to the hub.
        caller.require(Scope.WRITE)
        await self._check_online(caller.namespace, machine_id)
        ids = await self._store.list_foreign_sessions(caller.namespace, machine_id)
        found: list[HeldSession] = []
        for start in range(0, len(ids), _DESCRIBED):
            found += await self._describe(caller.namespace, machine_id, ids[start : start + _DESCRIBED])
        found.sort(key=lambda held: -(held.updated_at or 0))
        return ForeignSessionsResponse(sessions=[_view(machine_id, held) for held in found])

    async def adopt(self, caller: Caller, machine_id: str, session_id: str) -> SessionResponse:
        """Make a foreign session a session of the caller's namespace. It goes on as it is, also its agent's process.

        Repeating it is safe, whatever was interrupted. Raises Forbidden if its permission mode or its MCP servers need
        a scope that the caller lacks, and QuotaExceeded.
        """
        caller.require(Scope.WRITE)
        namespace = caller.namespace
        await self._check_online(namespace, machine_id)
        if session_id in await self._store.list_foreign_sessions(namespace, machine_id):
            described = await self._describe(namespace, machine_id, [session_id])
            if not described:
                raise NotFound("the machine does not have this session any more")
            [held] = described
            caller.require_mode(held.state.permission_mode)
            if held.spec.mcp_servers:
                caller.require_case(MCP_SERVERS)
            await self._store.adopt_session(namespace, held, limit=self._max_sessions)
        row = await self._store.get_session(namespace, session_id)
        if row.machine_id != machine_id:
            raise NotFound("no such session")
        # If the runner does not get this, it learns at its next connection that the hub has the session.
        await self._links.call(namespace, machine_id, session_id, Adopt(acked=row.seq))
        return SessionResponse(session=session_view(await self._store.get_session(namespace, session_id)))

    async def end(self, caller: Caller, machine_id: str, session_id: str) -> Done:
        """Stop the agent of a foreign session and delete it on its machine, at the latest when that connects."""
        caller.require(Scope.WRITE)
        await self._store.end_foreign_session(caller.namespace, machine_id, session_id)
        self._links.delete_session(caller.namespace, machine_id, session_id)
        return Done()

    async def _check_online(self, namespace: str, machine_id: str) -> None:
        await self._store.get_machine(namespace, machine_id)
        if self._links.current_link_id(namespace, machine_id) is None:
            raise MachineOffline
        if not self._links.speaks(namespace, machine_id, FOREIGN_PROTOCOL):
            raise NotCapable("the runner of this machine is too old for this: update farsteer there")

    async def _describe(self, namespace: str, machine_id: str, ids: list[str]) -> list[HeldSession]:
        reply = await self._links.call(namespace, machine_id, _NO_SESSION, DescribeSessions(session_ids=ids))
        return bounded_held_sessions(reply.result, machine_id, ids)


def _view(machine_id: str, held: HeldSession) -> ForeignSessionView:
    state = held.state
    return ForeignSessionView(
        id=state.id, machine_id=machine_id, agent=state.agent, directory=state.directory, title=state.title,
        status=state.status, permission_mode=state.permission_mode, seq=state.seq, lost=held.confirmed,
        updated_at=held.updated_at,
    )  # fmt: skip
