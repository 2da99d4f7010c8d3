"""Sessions: creating, listing, changing, interrupting and deleting them."""

from __future__ import annotations

from farsteer.core import commands
from farsteer.core.api import CreateSession, Done, RenameSession, SessionsResponse, SessionView, SwitchAgent
from farsteer.core.errors import BadRequest
from farsteer.core.events import SessionStatus
from farsteer.core.ids import is_uuid
from farsteer.core.modes import PermissionMode, ReasoningEffort, requested_mode
from farsteer.hub.auth.caller import MCP_SERVERS, Caller, Scope
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.view import session_view
from farsteer.hub.services.creation import CreationResult, SessionCreator
from farsteer.hub.services.delivery import MessageDelivery
from farsteer.hub.store.base import SessionFilter, Store

MAX_SESSIONS = 200
_DELIVERY_SECONDS = 1.0
"""How long an interruption waits for the delivery of earlier messages."""


class Sessions:
    def __init__(
        self, store: Store, links: MachineLinks, delivery: MessageDelivery, creator: SessionCreator
    ) -> None:
        self._store = store
        self._links = links
        self._delivery = delivery
        self._creator = creator

    async def create(
        self, caller: Caller, request: CreateSession, *, idempotency_key: str | None = None
    ) -> CreationResult:
        """Create a session. Raises as `SessionCreator.create` does, and Forbidden."""
        caller.require(Scope.WRITE)
        caller.require_mode(requested_mode(request.permission_mode, yolo=request.yolo))
        if request.mcp_servers:
            caller.require_case(MCP_SERVERS)
        return await self._creator.create_requested(caller, request, idempotency_key)

    async def list(
        self,
        caller: Caller,
        *,
        machine_id: str | None = None,
        agent: str | None = None,
        status: SessionStatus | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionsResponse:
        """Return a page of sessions, last updated first. `cursor` is the `next_cursor` of the previous page."""
        caller.require(Scope.READ)
        if not 1 <= limit <= MAX_SESSIONS:
            raise BadRequest(f"limit must be between 1 and {MAX_SESSIONS}")
        rows = await self._store.list_sessions(
            caller.namespace,
            SessionFilter(machine_id=machine_id, agent=agent, status=status, text=text),
            limit=limit + 1,
            after=None if cursor is None else _parse_cursor(cursor),
        )
        has_more = len(rows) > limit
        rows = rows[:limit]
        return SessionsResponse(
            sessions=[session_view(row) for row in rows],
            next_cursor=f"{rows[-1].updated_at}_{rows[-1].id}" if has_more else None,
        )

    async def get(self, caller: Caller, session_id: str) -> SessionView:
        caller.require(Scope.READ)
        row = await self._store.get_session(caller.namespace, session_id, whole_approvals=True)
        return session_view(row)

    async def rename(self, caller: Caller, session_id: str, request: RenameSession) -> Done:
        title = request.title.strip()
        if not title:
            raise BadRequest("a title must not be blank")
        return await self._call(caller, session_id, commands.Configure(title=title, identity=caller.identity))

    async def delete(self, caller: Caller, session_id: str) -> Done:
        """Delete a session at once, even if its machine is offline."""
        caller.require(Scope.WRITE)
        machine_id = await self._store.delete_session(caller.namespace, session_id)
        self._links.delete_session(caller.namespace, machine_id, session_id)
        return Done()

    async def abort(self, caller: Caller, session_id: str) -> Done:
        """Interrupt the running turn. The queue continues."""
        return await self._interrupt(caller, session_id, commands.Abort())

    async def stop(self, caller: Caller, session_id: str) -> Done:
        """End the agent's process and keep the session."""
        return await self._interrupt(caller, session_id, commands.Stop())

    async def resume(self, caller: Caller, session_id: str) -> Done:
        """Start the agent's process if none is running."""
        return await self._call(caller, session_id, commands.Resume())

    async def configure(
        self,
        caller: Caller,
        session_id: str,
        *,
        permission_mode: PermissionMode | None = None,
        model: str | None = None,
        effort: ReasoningEffort | None = None,
    ) -> Done:
        """Change the given values; None keeps a value. Raises Forbidden for a mode that the caller may not set."""
        caller.require(Scope.WRITE)
        if permission_mode is not None and not caller.may_set(permission_mode):
            row = await self._store.get_session(caller.namespace, session_id)
            if row.state.permission_mode is not permission_mode:
                caller.require_mode(permission_mode)
            # Not sent, because it would undo a change of the mode that is under way.
            permission_mode = None
            if model is None and effort is None:
                return Done()
        change = commands.Configure(
            permission_mode=permission_mode, model=model, effort=effort, identity=caller.identity
        )
        return await self._call(caller, session_id, change)

    async def switch_agent(self, caller: Caller, session_id: str, request: SwitchAgent) -> Done:
        """Go on with another agent that shares its conversations with the present one."""
        caller.require(Scope.WRITE)
        command = commands.SwitchAgent(agent=request.agent, model=request.model, identity=caller.identity)
        return await self._call(caller, session_id, command)

    async def _interrupt(
        self, caller: Caller, session_id: str, command: commands.Abort | commands.Stop
    ) -> Done:
        """Wait up to 1 s for messages accepted earlier, then send Abort or Stop.

        Without the wait, a message sent before the interruption could start a turn after it.
        """
        caller.require(Scope.WRITE)
        row = await self._store.get_session(caller.namespace, session_id)
        if row.has_accepted:
            await self._delivery.deliver(caller.namespace, row.machine_id, session_id, _DELIVERY_SECONDS)
        await self._links.call(caller.namespace, row.machine_id, session_id, command)
        return Done()

    async def _call(self, caller: Caller, session_id: str, command: commands.Command) -> Done:
        caller.require(Scope.WRITE)
        row = await self._store.get_session(caller.namespace, session_id)
        await self._links.call(caller.namespace, row.machine_id, session_id, command)
        return Done()


def _parse_cursor(cursor: str) -> tuple[int, str]:
    updated_at, _, session_id = cursor.partition("_")
    if not (updated_at.isascii() and updated_at.isdigit() and len(updated_at) <= 18 and is_uuid(session_id)):
        raise BadRequest("this cursor is not valid")
    return int(updated_at), session_id
