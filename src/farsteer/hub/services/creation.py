"""Creation of sessions: new ones, forks and imports.

A creation logs its steps for the caller, leaves nothing behind when it fails, and gives the same result to a repeated
request with the same idempotency key.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from farsteer.core.api import CreateSession, LogLineView, SessionCreated
from farsteer.core.clock import now_ms
from farsteer.core.commands import Create
from farsteer.core.errors import BadRequest, Conflict, ErrorCode, FarsteerError, MachineOffline, NotCapable
from farsteer.core.ids import check_id, new_id
from farsteer.core.mcp import find_fault
from farsteer.core.modes import requested_mode
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionType
from farsteer.core.wire import decode, encode
from farsteer.hub.auth.caller import Caller
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.metrics import Metrics
from farsteer.hub.services.delivery import MessageDelivery
from farsteer.hub.store.base import Store, StoredResponse
from farsteer.hub.tasks import BackgroundTasks
from farsteer.link.messages import WORKTREE_PROTOCOL, LogLine, Reply

DEFAULT_SOURCE = "external-api"
_MAX_KEY_LENGTH = 255
_UNDO_SECONDS = 5.0
"""How long a failed creation waits until nothing is left of it. If the database fails, that takes longer."""


@dataclass(frozen=True, slots=True)
class CreationFailed:
    """The session was not created. Nothing is left of it."""

    error: FarsteerError
    logs: list[LogLineView]
    """The steps up to the failure."""


CreationResult = SessionCreated | CreationFailed


@dataclass(frozen=True, slots=True)
class NewSession:
    """What to create, for `SessionCreator.create`."""

    request: object
    """What the caller asked for. An idempotency key is bound to this value."""
    make_spec: Callable[[], Awaitable[SessionSpec]]
    """Returns the specification. Not called if an earlier result is returned. Its errors make the creation fail."""
    prompt: str | None = None
    """The first message."""
    copy_log: Callable[[SessionSpec], Awaitable[tuple[SessionSpec, str]]] | None = None
    """Fills the log before the runner creates the session. Returns the new specification and a line for the logs."""


class RunningCreations:
    """The creations with an idempotency key that are in progress.

    They are known to this process only. With several hubs, a repeated request that reaches another hub while the first
    is in progress would create a second session. A second hub has to replace this class by one that reserves the key
    in the store when a creation begins; a finished creation is found in the store already (`Store.find_response`).
    """

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], tuple[bytes, asyncio.Task[CreationResult]]] = {}

    def find(self, namespace: str, key: str, digest: bytes) -> asyncio.Task[CreationResult] | None:
        """Return the creation in progress. Raises Conflict if its request has another digest."""
        found = self._tasks.get((namespace, key))
        if found is None:
            return None
        _check_same_request(found[0], digest)
        return found[1]

    def add(self, namespace: str, key: str, digest: bytes, task: asyncio.Task[CreationResult]) -> None:
        self._tasks[namespace, key] = (digest, task)
        task.add_done_callback(lambda _: self._tasks.pop((namespace, key)))


class CreationLog:
    """The steps of a creation, as the caller will read them."""

    def __init__(self) -> None:
        self.lines: list[LogLineView] = []
        self.step = "machine"

    def add(self, message: str) -> None:
        self._add(message, "ok", None)

    def add_error(self, error: FarsteerError) -> None:
        """Add the error that ended the creation, unless the runner has logged one."""
        if not any(line.status == "error" for line in self.lines):
            self._add(error.message, "error", error.code.value)

    def extend(self, lines: list[LogLine]) -> None:
        """Add the steps that the runner took."""
        self.lines += [
            LogLineView(
                timestamp=line.timestamp, step=line.step, message=line.message, status=line.status, code=line.code
            )
            for line in lines
        ]  # fmt: skip

    def _add(self, message: str, status: str, code: str | None) -> None:
        line = LogLineView(timestamp=now_ms(), step=self.step, message=message, status=status, code=code)
        self.lines.append(line)


class SessionCreator:
    def __init__(
        self,
        store: Store,
        links: MachineLinks,
        delivery: MessageDelivery,
        tasks: BackgroundTasks,
        metrics: Metrics,
        max_sessions: int,
    ) -> None:
        self._store = store
        self._links = links
        self._delivery = delivery
        self._tasks = tasks
        self._metrics = metrics
        self._max_sessions = max_sessions
        self._running = RunningCreations()

    async def create_requested(
        self, caller: Caller, request: CreateSession, idempotency_key: str | None
    ) -> CreationResult:
        """Create the session that a client describes. Raises as `create` does."""

        async def make_spec() -> SessionSpec:
            return _requested_spec(request)

        return await self.create(caller, NewSession(request, make_spec, request.prompt), idempotency_key)

    async def create(self, caller: Caller, new: NewSession, idempotency_key: str | None) -> CreationResult:
        """Create a session. Creation continues if this call is cancelled; repeating it with the key returns the result.

        Raises only for the key: BadRequest if it is malformed, Conflict (`idempotency_mismatch`) if it was used for
        another request. Every other error is returned as `CreationFailed`.
        """
        if idempotency_key is None:
            return await asyncio.shield(self._start(caller, new, None))
        if not idempotency_key.strip() or len(idempotency_key) > _MAX_KEY_LENGTH:
            raise BadRequest(f"an Idempotency-Key has 1 to {_MAX_KEY_LENGTH} characters")
        digest = hashlib.sha256(encode(new.request)).digest()
        task = self._running.find(caller.namespace, idempotency_key, digest)
        if task is None:
            stored = await self._store.find_response(caller.namespace, idempotency_key)
            if stored is not None:
                _check_same_request(stored.digest, digest)
                return decode(stored.response, SessionCreated)
            # Another request with the key may have begun while the store was read.
            task = self._running.find(caller.namespace, idempotency_key, digest)
        if task is None:
            task = self._start(caller, new, (idempotency_key, digest))
            self._running.add(caller.namespace, idempotency_key, digest, task)
        return await asyncio.shield(task)

    def _start(
        self, caller: Caller, new: NewSession, key: tuple[str, bytes] | None
    ) -> asyncio.Task[CreationResult]:
        return self._tasks.spawn(self._create(caller, new, key), "creation of a session")

    async def _create(self, caller: Caller, new: NewSession, key: tuple[str, bytes] | None) -> CreationResult:
        log = CreationLog()
        try:
            created = await self._create_session(caller, new, key, log)
        except FarsteerError as error:
            log.add_error(error)
            return CreationFailed(error, log.lines)
        self._metrics.sessions_created += 1
        return created

    async def _create_session(
        self, caller: Caller, new: NewSession, key: tuple[str, bytes] | None, log: CreationLog
    ) -> SessionCreated:
        namespace = caller.namespace
        spec = await new.make_spec()
        machine = await self._store.get_machine(namespace, spec.machine_id)
        if not machine.active:
            raise MachineOffline
        if spec.worktree_base is not None and not self._links.speaks(
            namespace, spec.machine_id, WORKTREE_PROTOCOL
        ):
            raise NotCapable(
                "the runner of this machine is too old for this: update farsteer there", field="worktreeBase"
            )
        log.add(f"{machine.name or machine.host} is online")
        log.step = "create"
        item = None if new.prompt is None else _first_message(new.prompt, caller)
        await self._store.begin_session(namespace, spec.without_secrets, limit=self._max_sessions)
        reply: Reply | None = None
        try:
            if new.copy_log is not None:
                spec, message = await new.copy_log(spec)
                log.add(message)
            reply = await self._links.request(namespace, spec.machine_id, spec.id, Create(spec=spec))
            log.extend(reply.logs)
            if reply.error is not None:
                raise reply.error.to_error()
            if item is not None:
                log.step = "prompt"
                log.add("the first message is queued")
            created = SessionCreated(session_id=spec.id, logs=log.lines)
            response = None if key is None else StoredResponse(*key, encode(created))
            await self._store.finish_session(spec.id, reply.state, first_message=item, response=response)
        except BaseException:
            refused = reply is not None and reply.error is not None
            undo = self._tasks.spawn_until_done(
                lambda: self._undo(namespace, spec, on_machine=not refused), "cleanup of a failed creation"
            )
            await asyncio.wait([undo], timeout=_UNDO_SECONDS)
            raise
        if item is not None:
            self._delivery.start(namespace, spec.machine_id, spec.id)
        return created

    async def _undo(self, namespace: str, spec: SessionSpec, *, on_machine: bool) -> None:
        """Discard the row, then delete the session on its machine, where it may exist if `on_machine`.

        The row goes first: a runner that is offline learns from the missing row that the session is deleted.
        """
        await self._store.discard_session(spec.id, keep_tombstone=on_machine)
        if on_machine:
            self._links.delete_session(namespace, spec.machine_id, spec.id)


def _check_same_request(known: bytes, given: bytes) -> None:
    if known != given:
        raise Conflict(
            "this Idempotency-Key was used for another request", code=ErrorCode.IDEMPOTENCY_MISMATCH
        )


def _first_message(text: str, caller: Caller) -> QueueItem:
    return QueueItem(
        id=new_id(), text=text, created_at=now_ms(), sent_from=caller.name, identity=caller.identity
    )


def _requested_spec(request: CreateSession) -> SessionSpec:
    servers = tuple(server.server() for server in request.mcp_servers)
    if (fault := find_fault(servers)) is not None:
        raise BadRequest(fault)
    if request.worktree_name is not None and request.session_type is not SessionType.WORKTREE:
        raise BadRequest(
            "worktreeName needs sessionType worktree", code=ErrorCode.FIELD_NOT_USED, field="worktreeName"
        )
    if request.worktree_base is not None and request.session_type is not SessionType.WORKTREE:
        raise BadRequest(
            "worktreeBase needs sessionType worktree", code=ErrorCode.FIELD_NOT_USED, field="worktreeBase"
        )
    options = {"claudeAgent": request.claude_agent, "openrouterModel": request.openrouter_model}
    model = request.model
    if model is None and request.model_mode != "default":
        model = request.model_mode
    if model is not None and request.openrouter_model is not None:
        raise BadRequest(
            "openrouterModel and model both name the model",
            code=ErrorCode.FIELD_NOT_USED,
            field="openrouterModel",
        )
    return SessionSpec(
        id=new_id() if request.session_id is None else check_id(request.session_id, "sessionId"),
        machine_id=request.machine_id,
        directory=request.directory,
        agent=request.agent,
        session_type=request.session_type or SessionType.SIMPLE,
        worktree_name=request.worktree_name,
        worktree_base=request.worktree_base,
        permission_mode=requested_mode(request.permission_mode, yolo=request.yolo),
        model=model,
        effort=request.model_reasoning_effort,
        title=request.title,
        source=(request.source or "").strip() or DEFAULT_SOURCE,
        permission_timeout=request.permission_timeout,
        options={name: value for name, value in options.items() if value is not None},
        mcp_servers=servers,
        additional_directories=tuple(request.additional_directories),
        terminal=request.terminal,
    )
