"""Forks: a new session that begins with a copy of another session's conversation."""

from __future__ import annotations

from msgspec.structs import replace

from farsteer.core.api import ForkSession
from farsteer.core.errors import Conflict, NotCapable
from farsteer.core.events import UserMessage
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode
from farsteer.core.session import Fork, SessionSpec
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.services.creation import CreationResult, NewSession, SessionCreator
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import CopyProgress, Store

_MAX_TITLE = 200


class Forks:
    def __init__(self, store: Store, machines: Machines, creator: SessionCreator) -> None:
        self._store = store
        self._machines = machines
        self._creator = creator

    async def fork(
        self, caller: Caller, session_id: str, request: ForkSession, *, idempotency_key: str | None = None
    ) -> CreationResult:
        """Create a session with a copy of the log up to `request.seq`. Later changes of the source do not affect it.

        The fork has the permission mode of its source if the caller may set that mode, else the default mode.
        Fails with NotCapable if the agent cannot fork, and with Conflict if it has no conversation yet. Raises as
        `SessionCreator.create` does.
        """
        caller.require(Scope.WRITE)
        namespace = caller.namespace

        async def make_spec() -> SessionSpec:
            row = await self._store.get_session(namespace, session_id)
            can = await self._machines.capabilities(row)
            if not can.fork:
                raise NotCapable("this agent cannot fork a conversation")
            if request.seq is not None and not can.rewind:
                # It has no anchors, so that it would take over what comes after the copy too.
                raise NotCapable("this agent forks whole conversations only", field="seq")
            if row.state.native_id is None or not row.state.registered:
                raise Conflict("there is nothing to fork yet: the agent has no conversation")
            last_seq = row.seq if request.seq is None else await self._last_copied_seq(row, request.seq)
            return fork_spec(row, request, last_seq, caller)

        async def copy_log(spec: SessionSpec) -> tuple[SessionSpec, str]:
            return await self.copy_log(namespace, session_id, spec)

        new = NewSession(("fork", session_id, request), make_spec, copy_log=copy_log)
        return await self._creator.create(caller, new, idempotency_key)

    async def copy_log(self, namespace: str, source_id: str, spec: SessionSpec) -> tuple[SessionSpec, str]:
        """Let the log of a session in creation begin with that of its source. Returns the spec and what was done."""
        assert spec.fork is not None
        ranges = await self._store.visible_ranges(namespace, source_id, spec.fork.seq)
        copied = CopyProgress()
        while not copied.done:
            copied = await self._store.copy_entries(namespace, source_id, spec.id, ranges, copied)
        spec = replace(spec, fork=_agent_memory(spec.fork, copied))
        await self._store.finish_copy(spec, copied)
        return spec, f"{copied.count} entries copied; the permission mode is {spec.permission_mode.value}"

    async def _last_copied_seq(self, row: SessionRow, seq: int) -> int:
        """A person's message is left out of the copy, together with the turn that it began."""
        point = await self._store.find_rewind_point(row.namespace, row.id, seq)
        return point.first_seq - 1 if isinstance(point.entry.content, UserMessage) else seq


def fork_spec(source: SessionRow, request: ForkSession, last_seq: int, caller: Caller) -> SessionSpec:
    """Return the spec of a session that goes on with what its source has up to an entry."""
    state, spec = source.state, source.spec
    mode = state.permission_mode if caller.may_set(state.permission_mode) else PermissionMode.DEFAULT
    title = (request.title or "").strip() or f"Fork of {state.title or state.directory}"
    return SessionSpec(
        id=new_id(),
        machine_id=source.machine_id,
        # If this is a worktree, the fork uses the same one.
        directory=state.directory,
        agent=state.agent,
        permission_mode=mode,
        model=state.model,
        effort=state.effort,
        title=title[:_MAX_TITLE],
        source=spec.source,
        permission_timeout=spec.permission_timeout,
        options=spec.options,
        mcp_servers=spec.mcp_servers,
        additional_directories=spec.additional_directories,
        fork=Fork(session_id=source.id, seq=last_seq, native_id=state.native_id),
    )


def _agent_memory(fork: Fork, copied: CopyProgress) -> Fork:
    """Set which part of the source's conversation the agent takes over: up to the last anchor in the copy.

    Without an anchor it takes over everything if it has answered in the copy, and nothing otherwise.
    """
    native_id = fork.native_id if copied.answered else None
    return replace(fork, native_id=native_id, cut_at=copied.anchor, copied=copied.count)
