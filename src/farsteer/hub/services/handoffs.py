"""Hand over: a session of another agent goes on with the conversation of a session, in the same directory."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from farsteer.core.api import ForkSession, HandOff
from farsteer.core.errors import BadRequest, Conflict, ErrorCode, NotCapable
from farsteer.core.events import Entry, SessionEvent
from farsteer.core.session import Handoff, SessionSpec
from farsteer.core.wire import decode
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.digest import make_digest
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.services.creation import CreationResult, NewSession, SessionCreator
from farsteer.hub.services.forks import Forks, fork_spec
from farsteer.hub.store.base import Store
from farsteer.link.messages import HANDOFF_PROTOCOL

_PAGE = 200
_MAX_PAGES = 10


class Handoffs:
    def __init__(self, store: Store, links: MachineLinks, forks: Forks, creator: SessionCreator) -> None:
        self._store = store
        self._links = links
        self._forks = forks
        self._creator = creator

    async def hand_off(
        self, caller: Caller, session_id: str, request: HandOff, *, idempotency_key: str | None = None
    ) -> CreationResult:
        """Create a session of another agent that goes on with this conversation. The source does not change.

        An agent that uses the same store has the conversation itself. Any other is told a digest, with the first
        message. Its permission mode is that of the source if the caller may set it, else the default one. Fails with
        Conflict (`turn_running`) while the source works. Raises as `SessionCreator.create` does.
        """
        caller.require(Scope.WRITE)
        namespace = caller.namespace

        async def make_spec() -> SessionSpec:
            row = await self._store.get_session(namespace, session_id)
            if request.agent == row.state.agent:
                raise BadRequest(f"this is a session of {request.agent} already: fork it")
            if row.state.turn_id is not None:
                raise Conflict(
                    "a turn is running: wait for its end or abort it",
                    code=ErrorCode.TURN_RUNNING,
                    session=row.id,
                )
            connected = self._links.current_link_id(namespace, row.machine_id) is not None
            if connected and not self._links.speaks(namespace, row.machine_id, HANDOFF_PROTOCOL):
                raise NotCapable("the runner of this machine is too old for this: update farsteer there")
            spec = fork_spec(row, ForkSession(title=request.title), row.seq, caller)
            spec = replace(
                spec,
                agent=request.agent,
                model=request.model,
                effort=None,
                options={},
                title=request.title or spec.title,
                handoff=Handoff(session_id=row.id, agent=row.state.agent, seq=row.seq),
            )
            if await self._has_conversation(row, request.agent):
                return spec
            events = await self._read(namespace, session_id)
            digest = make_digest(row.state.agent, row.state.title, events)
            assert spec.handoff is not None
            # MCP servers are left out: their secrets are the source's.
            return replace(spec, fork=None, mcp_servers=(), handoff=replace(spec.handoff, digest=digest))

        async def copy_log(spec: SessionSpec) -> tuple[SessionSpec, str]:
            if spec.fork is None:
                assert spec.handoff is not None
                return spec, f"{len(spec.handoff.digest)} characters of digest go with the first message"
            return await self._forks.copy_log(namespace, session_id, spec)

        new = NewSession(("handoff", session_id, request), make_spec, request.text, copy_log)
        return await self._creator.create(caller, new, idempotency_key)

    async def _has_conversation(self, row: SessionRow, agent: str) -> bool:
        """Return whether the agent can begin with a fork of the source's own conversation."""
        if row.state.native_id is None or not row.state.registered:
            return False
        machine = await self._store.get_machine(row.namespace, row.machine_id)
        return any(
            info.name == agent and info.capabilities.fork and row.state.agent in info.continues
            for info in machine.agents
        )

    async def _read(self, namespace: str, session_id: str) -> list[SessionEvent]:
        """Return the newest entries, and the first ones, oldest first."""
        pages: list[list[bytes]] = []
        before: int | None = None
        for _ in range(_MAX_PAGES):
            page = await self._store.read_page(namespace, session_id, limit=_PAGE, before=before, after=None)
            pages.insert(0, page.bodies)
            before = page.first_seq
            if not page.has_older:
                break
        else:
            first = await self._store.read_page(namespace, session_id, limit=_PAGE, before=None, after=0)
            pages.insert(0, first.bodies)
        return [event for page in pages for body in page if (event := _event(body)) is not None]


def _event(body: bytes) -> SessionEvent | None:
    try:
        return decode(body, Entry).content
    except msgspec.DecodeError:
        return None
