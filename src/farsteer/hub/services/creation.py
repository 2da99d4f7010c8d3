"""Creating a session: every step told to the caller, the same answer to the same request, nothing left of a failure."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from farsteer.core.api import CreateSession, LogLineView, SessionCreated, SessionNotCreated
from farsteer.core.clock import now_ms
from farsteer.core.commands import Create
from farsteer.core.errors import BadRequest, Conflict, ErrorCode, FarsteerError, MachineOffline
from farsteer.core.ids import new_id
from farsteer.core.mcp import find_fault
from farsteer.core.modes import requested_mode
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionType
from farsteer.core.wire import decode, encode
from farsteer.hub.auth.caller import Caller
from farsteer.hub.dispatch import Dispatch
from farsteer.hub.metrics import Metrics
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import Store, StoredResponse
from farsteer.hub.tasks import Tasks
from farsteer.link.messages import LogLine, Reply

DEFAULT_SOURCE = "external-api"
Prepare = Callable[[], Awaitable[SessionSpec]]
"""Makes what is to be created; an error of it is a failed creation."""
Fill = Callable[[SessionSpec], Awaitable[tuple[SessionSpec, str]]]
"""Puts something into a session before its runner hears of it: what the session is then, and what to tell."""
_MAX_KEY = 255


@dataclass(frozen=True, slots=True)
class Creation:
    """How a creation ended: the body the document describes, and the HTTP status that says the same."""

    status: int
    body: SessionCreated | SessionNotCreated


@dataclass(frozen=True, slots=True)
class _Running:
    digest: bytes
    task: asyncio.Task[Creation]


class _Steps:
    """What was done so far, as the caller will read it."""

    def __init__(self) -> None:
        self.lines: list[LogLineView] = []
        self.current = "machine"

    def note(self, message: str) -> None:
        self._add(self.current, message, "ok", None)

    def fail(self, error: FarsteerError) -> None:
        if not any(line.status == "error" for line in self.lines):  # the runner may have told it already
            self._add(self.current, error.message, "error", error.code.value)

    def extend(self, lines: list[LogLine]) -> None:
        self.lines += [
            LogLineView(timestamp=x.timestamp, step=x.step, message=x.message, status=x.status, code=x.code)
            for x in lines
        ]

    def _add(self, step: str, message: str, status: str, code: str | None) -> None:
        self.lines.append(
            LogLineView(timestamp=now_ms(), step=step, message=message, status=status, code=code)
        )


class Creator:
    def __init__(
        self, store: Store, machines: Machines, dispatch: Dispatch, tasks: Tasks, metrics: Metrics
    ) -> None:
        self._store = store
        self._machines = machines
        self._dispatch = dispatch
        self._tasks = tasks
        self._metrics = metrics
        self._running: dict[tuple[str, str], _Running] = {}

    async def create(self, caller: Caller, request: CreateSession, key: str | None) -> Creation:
        async def prepare() -> SessionSpec:
            return _spec(request)

        return await self.make(caller, prepare, request, key, prompt=request.prompt)

    async def make(
        self, caller: Caller, prepare: Prepare, request: object, key: str | None, *, prompt: str | None = None,
        fill: Fill | None = None,
    ) -> Creation:  # fmt: skip
        """Create what `prepare` says. `request` is what the caller asked for: the key stands for exactly that.

        A creation goes on when its caller goes away; with the same key it can be asked for again.
        """
        work = partial(self._create, caller, prepare, prompt, fill)
        if key is None:
            return await asyncio.shield(self._start(work(None)))
        if not key.strip() or len(key) > _MAX_KEY:
            raise BadRequest(f"an Idempotency-Key has 1 to {_MAX_KEY} characters")
        digest = hashlib.sha256(encode(request)).digest()
        running = self._running.get((caller.namespace, key))
        if running is None:
            recalled = await self._store.find_response(caller.namespace, key)
            if recalled is not None:
                _same(recalled.digest, digest)
                return Creation(200, decode(recalled.response, SessionCreated))
            running = self._running.get((caller.namespace, key))
        if running is None:
            task = self._start(work((key, digest)))
            running = self._running[caller.namespace, key] = _Running(digest, task)
            task.add_done_callback(lambda _: self._running.pop((caller.namespace, key)))
        _same(running.digest, digest)
        return await asyncio.shield(running.task)

    def _start(self, work: Coroutine[Any, Any, Creation]) -> asyncio.Task[Creation]:
        return self._tasks.spawn(work, "creation of a session")

    async def _create(
        self, caller: Caller, prepare: Prepare, prompt: str | None, fill: Fill | None,
        remember: tuple[str, bytes] | None,
    ) -> Creation:  # fmt: skip
        steps = _Steps()
        try:
            session_id = await self._run(caller, prepare, prompt, fill, remember, steps)
        except FarsteerError as error:
            steps.fail(error)
            # The document knows no details; whose conversation it is already is of imports only.
            known = error.details.get("session")
            details = None if known is None else {"session": known}
            body = SessionNotCreated(message=error.message, logs=steps.lines, details=details)
            return Creation(error.status, body)
        self._metrics.sessions_created += 1
        return Creation(200, SessionCreated(session_id=session_id, logs=steps.lines))

    async def _run(
        self,
        caller: Caller,
        prepare: Prepare,
        prompt: str | None,
        fill: Fill | None,
        remember: tuple[str, bytes] | None,
        steps: _Steps,
    ) -> str:
        spec = await prepare()
        machine = await self._store.get_machine(caller.namespace, spec.machine_id)
        if not machine.active:
            raise MachineOffline
        steps.note(f"{machine.name or machine.host} is online")
        steps.current = "create"
        item = None if prompt is None else _first_message(prompt, caller)
        await self._store.begin_session(caller.namespace, spec.without_secrets)
        reply: Reply | None = None
        try:
            if fill is not None:
                spec, told = await fill(spec)
                steps.note(told)
            reply = await self._machines.ask(caller.namespace, spec.machine_id, spec.id, Create(spec=spec))
            steps.extend(reply.logs)
            if reply.error is not None:
                raise reply.error.to_error()
            if item is not None:
                steps.current = "prompt"
                steps.note("the first message is queued")
            answer = encode(SessionCreated(session_id=spec.id, logs=steps.lines))
            response = None if remember is None else StoredResponse(*remember, answer)
            await self._store.finish_session(spec.id, reply.state, first_message=item, response=response)
        except BaseException:
            refused = reply is not None and reply.error is not None
            undoing = self._undo(caller.namespace, spec, there=not refused)
            await asyncio.shield(self._tasks.spawn(undoing, "end of a failed creation"))
            raise
        if item is not None:
            self._dispatch.kick(caller.namespace, spec.machine_id, spec.id)
        return spec.id

    async def _undo(self, namespace: str, spec: SessionSpec, *, there: bool) -> None:
        """First the row, then the runner: one whose link is down will hear that the session is unknown."""
        await self._store.discard_session(spec.id, keep_tombstone=there)
        if there:
            self._machines.forget(namespace, spec.machine_id, spec.id)


def _same(known: bytes, given: bytes) -> None:
    if known != given:
        raise Conflict(
            "this Idempotency-Key was used for another request", code=ErrorCode.IDEMPOTENCY_MISMATCH
        )


def _first_message(text: str, caller: Caller) -> QueueItem:
    return QueueItem(id=new_id(), text=text, created_at=now_ms(), sent_from=caller.name)


def _spec(request: CreateSession) -> SessionSpec:
    servers = tuple(server.server() for server in request.mcp_servers)
    if (wrong := find_fault(servers)) is not None:
        raise BadRequest(wrong)
    options = {"claudeAgent": request.claude_agent, "openrouterModel": request.openrouter_model}
    model = request.model
    if model is None and request.model_mode != "default":
        model = request.model_mode
    return SessionSpec(
        id=new_id(),
        machine_id=request.machine_id,
        directory=request.directory,
        agent=request.agent,
        session_type=request.session_type or SessionType.SIMPLE,
        worktree_name=request.worktree_name,
        permission_mode=requested_mode(request.permission_mode, yolo=request.yolo),
        model=model,
        effort=request.model_reasoning_effort,
        title=request.title,
        source=(request.source or "").strip() or DEFAULT_SOURCE,
        permission_timeout=request.permission_timeout,
        options={name: value for name, value in options.items() if value is not None},
        mcp_servers=servers,
        additional_directories=tuple(request.additional_directories),
    )
