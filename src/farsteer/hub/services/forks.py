"""Forking: a new session that begins as another one did, and leaves it as it is."""

from __future__ import annotations

from msgspec.structs import replace

from farsteer.core.api import ForkSession
from farsteer.core.errors import Conflict, NotCapable
from farsteer.core.events import UserMessage
from farsteer.core.ids import new_id
from farsteer.core.session import Fork, SessionSpec
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.capable import capabilities
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.services.creation import Creation, Creator
from farsteer.hub.store.base import CopyProgress, Store

_MAX_TITLE = 200


class Forks:
    def __init__(self, store: Store, creator: Creator) -> None:
        self._store = store
        self._creator = creator

    async def fork(
        self, caller: Caller, session_id: str, request: ForkSession, *, idempotency_key: str | None = None
    ) -> Creation:
        """What goes on in the source meanwhile, or happens to it later, changes nothing here."""
        caller.require(Scope.WRITE)
        namespace = caller.namespace

        async def prepare() -> SessionSpec:
            row = await self._store.get_session(namespace, session_id)
            if not (await capabilities(self._store, row)).fork:
                raise NotCapable("this agent cannot fork a conversation")
            if row.state.native_id is None or not row.state.registered:
                raise Conflict("there is nothing to fork yet: the agent has no conversation to begin with")
            upto = row.seq if request.seq is None else await self._upto(row, request.seq)
            return _spec(row, request, upto)

        async def fill(spec: SessionSpec) -> tuple[SessionSpec, str]:
            assert spec.fork is not None
            ranges = await self._store.visible_ranges(namespace, session_id, spec.fork.seq)
            copied = CopyProgress()
            while not copied.done:
                copied = await self._store.copy_entries(namespace, session_id, spec.id, ranges, copied)
            spec = replace(spec, fork=_begins_with(spec.fork, copied))
            await self._store.finish_copy(spec, copied)
            return spec, f"{copied.count} entries copied"

        asked = ("fork", session_id, request)
        return await self._creator.make(caller, prepare, asked, idempotency_key, fill=fill)

    async def _upto(self, row: SessionRow, seq: int) -> int:
        place = await self._store.find_rewind_point(row.namespace, row.id, seq)
        return place.first_seq - 1 if isinstance(place.entry.content, UserMessage) else seq


def _spec(source: SessionRow, request: ForkSession, upto: int) -> SessionSpec:
    state, spec = source.state, source.spec
    title = (request.title or "").strip() or f"Fork of {state.title or state.directory}"
    return SessionSpec(
        id=new_id(),
        machine_id=source.machine_id,
        # A worktree is where it is; the fork works in the same one.
        directory=state.directory,
        agent=state.agent,
        permission_mode=state.permission_mode,
        model=state.model,
        effort=state.effort,
        title=title[:_MAX_TITLE],
        source=spec.source,
        permission_timeout=spec.permission_timeout,
        options=spec.options,
        mcp_servers=spec.mcp_servers,
        additional_directories=spec.additional_directories,
        fork=Fork(session_id=source.id, seq=upto, native_id=state.native_id),
    )


def _begins_with(fork: Fork, copied: CopyProgress) -> Fork:
    """What the agent remembers: up to the last anchor, whatever has been added to its conversation by then.

    With no anchor but answers it takes over everything, rather than nothing. With no answer there is nothing to take.
    """
    native_id = fork.native_id if copied.answered else None
    return replace(fork, native_id=native_id, cut_at=copied.anchor, copied=copied.count)
