"""One life of a Droid process, as the runner sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from farsteer.agents.base import Exited, Launch, LaunchPlan, Prompt, Sink
from farsteer.agents.droid import approvals, restoring, wire
from farsteer.agents.droid.binary import QUIET
from farsteer.agents.droid.commands import Commands
from farsteer.agents.droid.ending import Verdict
from farsteer.agents.droid.hearing import ADD_MESSAGE, CLOSE, Hearing
from farsteer.agents.droid.lock import ConversationLock
from farsteer.agents.droid.opening import Opening, Session
from farsteer.agents.droid.prompt import message_params
from farsteer.agents.droid.rpc import Rpc
from farsteer.agents.droid.settings import Dial
from farsteer.agents.droid.usage import Ledger, Meter
from farsteer.agents.process import AgentProcess, ProcessExit
from farsteer.core.approvals import Answer, Approval
from farsteer.core.errors import AgentError, Conflict, ErrorCode, FarsteerError, NotCapable
from farsteer.core.events import FilesRestored, TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.lines import Line
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.wire import encode

_CONFIRM_TIMEOUT = 30.0
"""A message that Droid has not confirmed by then has an unknown fate, and Droid is ended."""
_SETTINGS_TIMEOUT = 15.0
_CLOSE_PATIENCE = 5.0
_WRITE_TIMEOUT = 10.0
_TELLING = (ErrorCode.CONVERSATION_MISSING, ErrorCode.ANCHOR_UNKNOWN, ErrorCode.CONFLICT)
"""What a failed start is told by; anything else is only that it failed."""

_log = logging.getLogger(__name__)


class DroidLaunch(Launch):
    def __init__(self, plan: LaunchPlan, sink: Sink, *, restores: bool = True) -> None:
        self._plan = plan
        self._restores = restores
        self._sink = sink
        self._dial = Dial(plan.permission_mode, plan.model, plan.effort)
        self._rpc = Rpc(self._write)
        self._hearing = Hearing(self._rpc, self._dial, Meter(Ledger(plan.state_dir)), self._reply)
        self._opening = Opening(self._rpc, self._dial, plan.directory, plan.startup_timeout)
        self.commands = Commands(self._rpc, self)
        self._outgoing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._lock: ConversationLock | None = None
        self._started = self._ready = False
        self._gone: AgentError | None = None
        self._stopping = False
        self._closed = asyncio.Event()
        """Droid has gone, or has said that it cannot be told to."""

    @classmethod
    async def start(
        cls, argv: Sequence[str], plan: LaunchPlan, sink: Sink, *, restores: bool = True
    ) -> DroidLaunch:
        """`restores`: this version brings files back. Raises AgentError, and then no process is left."""
        launch = cls(plan, sink, restores=restores)
        try:
            await launch._begin(argv)
        except BaseException:
            launch._let_go()
            raise
        return launch

    async def _begin(self, argv: Sequence[str]) -> None:
        plan = self._plan
        if plan.decision.start is LaunchMode.RESUME and plan.decision.native_id is not None:
            await self._hold(plan.decision.native_id)
        self._process = AgentProcess.start(
            argv, cwd=plan.directory, environment={**plan.environment, **QUIET}, on_lines=self._hear,
            on_exit=self._exited,
        )  # fmt: skip
        self._started = True
        if self._lock is not None:
            self._lock.name(self.pid)
        try:
            async with asyncio.timeout(plan.startup_timeout):
                session = await self._opening.perform(plan)
                self._opened(session)
                await self._hold(session.session_id)
                await self._deliver()
            if self._gone is not None:
                raise self._gone
            self._ready = True
        except TimeoutError:
            raise await self._failed(f"Droid was not ready within {plan.startup_timeout:g} s") from None
        except NotCapable as error:
            await self._failed(error.message)
            raise
        except FarsteerError as error:
            raise await self._failed(error.message, error.code, **error.details) from None
        finally:
            if not self._ready:
                self._process.kill("it did not start")
                await self._process.wait_reaped()

    def _opened(self, session: Session) -> None:
        """The conversation is there: from now on it can be resumed, even if nothing was said yet."""
        assert session.session_id is not None
        turns = self._hearing.turns
        self._hearing.translator.opened(session.session_id, session.used)
        for event in self._dial.confirm():
            turns.add_event(event)
        for method, pending in (
            (wire.REQUEST_PERMISSION, session.pending_permissions),
            (wire.ASK_USER, session.pending_ask_user_requests),
        ):
            for asked in pending or ():
                request = wire.Request(
                    id=str(asked.get("requestId")), method=method, params=msgspec.Raw(encode(asked))
                )
                self._hearing.asking.take(request)

    async def _failed(self, why: str, told: ErrorCode | None = None, **details: Any) -> AgentError:
        self._process.kill("it did not start")
        await self._process.wait()
        stderr = self._process.stderr or None
        code = told if told in _TELLING else ErrorCode.AGENT_START_FAILED
        return AgentError(why, code=code, **{**details, "stderr": stderr})

    # -- the contract

    @property
    def native_id(self) -> str | None:
        return self._hearing.translator.session_id

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, prompt: Prompt) -> None:
        params = message_params(prompt)
        request_id = self._rpc.new_id()
        self._hearing.begin(prompt.turn_id, request_id)
        try:
            await self._rpc.call(ADD_MESSAGE, params, _CONFIRM_TIMEOUT, request_id=request_id)
        except BaseException as error:
            self._hearing.abandon()
            if not isinstance(error, FarsteerError) or error.code is ErrorCode.TIMEOUT:
                self._process.kill("it did not confirm a message")
            raise

    async def answer(self, approval: Approval, answer: Answer) -> None:
        line = self._hearing.asking.answer(approval, answer)
        if (answer.option_id or "").startswith(approvals.NEW_SESSION):
            self._hearing.translator.may_move()
        await self._write(line)

    async def interrupt(self) -> None:
        if self._hearing.turns.turn_id is not None:
            self._hearing.ending.interrupted()
            await self._rpc.post("interrupt_session", {})

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        if not self._restores:
            raise NotCapable("this version of Droid does not bring files back")
        self.check_idle()
        assert self.native_id is not None
        return await restoring.restore(self.commands, Path.home(), self.native_id, message_id, after)

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        await self._set(self._dial.want(mode=mode))

    async def set_model(self, model: str) -> None:
        await self._set(self._dial.want(model=model))

    async def set_effort(self, effort: ReasoningEffort) -> None:
        await self._set(self._dial.want(effort=effort))

    async def stop(self, grace: float = 3.0) -> None:
        """Ask Droid to close the session; its input's end and SIGTERM it answers by working on for a while."""
        if not self._stopping and self._process.running:
            self._stopping = True
            self._hearing.ending.closing()
            with suppress(TimeoutError, FarsteerError):
                async with asyncio.timeout(min(grace, _CLOSE_PATIENCE)):
                    await self._close()
        await self._process.stop(grace)
        # Bounded, for the sink may be the one who waits for us.
        with suppress(TimeoutError):
            async with asyncio.timeout(max(grace, 1.0)):
                await self._process.wait()

    async def _close(self) -> None:
        await self._rpc.post(CLOSE, {"reason": "other"})
        await self._closed.wait()
        if self._hearing.cannot_close and self._hearing.turns.turn_id is not None:
            # An older CLI: with nothing left to do it ends with its input.
            await self._rpc.post("interrupt_session", {})

    async def _set(self, params: dict[str, Any]) -> None:
        try:
            await self._rpc.call("update_session_settings", params, _SETTINGS_TIMEOUT)
        except BaseException:
            self._dial.refused()
            raise
        for event in self._dial.confirm():
            self._hearing.turns.add_event(event)
        await self._deliver()

    # -- for the commands

    def check_idle(self) -> None:
        if self._hearing.turns.turn_id is not None:
            raise Conflict("a turn is running")

    async def move(self, native_id: str) -> None:
        session = await self._opening.load(native_id)
        self._opening.read(session)
        self._hearing.translator.opened(native_id, session.used)
        news = self._dial.news()
        if news is not None:
            self._hearing.turns.add_event(news)
        await self._hold(native_id)
        await self._deliver()

    # -- what Droid says

    async def _hear(self, lines: list[Line]) -> None:
        before = self.native_id
        self._hearing.hear(lines)
        if self._hearing.cannot_close:
            self._closed.set()
        if before is not None and self.native_id != before:
            await self._hold(self.native_id)
        self._wind()
        await self._deliver()

    def _wind(self) -> None:
        """While Droid is idle and something is owed, a silence that lasts ends the turn."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        patience = self._hearing.patience
        if patience is not None:
            self._timer = asyncio.get_running_loop().call_later(patience, self._overdue)

    def _overdue(self) -> None:
        if self._hearing.patience is not None:
            self._hearing.end(self._hearing.ending.overdue())
            self._spawn(self._deliver())

    async def _deliver(self) -> None:
        async with self._outgoing:
            outputs = self._hearing.turns.drain()
            if outputs:
                await self._sink.put(outputs)

    async def _exited(self, ended: ProcessExit) -> None:
        ours = self._stopping or ended.asked is not None
        reason = TurnEndReason.CANCELLED if ours else TurnEndReason.CRASHED
        self._hearing.exited(Verdict(reason, f"Droid's process ended: {ended.reason}"))
        self._gone = AgentError(f"Droid ended: {ended.reason}", code=ErrorCode.AGENT_DIED)
        self._rpc.end(self._gone)
        self._closed.set()
        self._let_go()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self._ready:
            return
        told = "stopped" if self._stopping else ended.reason
        self._hearing.turns.add(Exited(exit_code=ended.code, reason=told, stderr=ended.stderr or None))
        await self._deliver()

    # -- small things

    async def _write(self, line: bytes) -> None:
        await self._process.write(line, _WRITE_TIMEOUT)

    def _reply(self, line: bytes) -> None:
        self._spawn(self._write(line))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that nobody waits for before the process ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("droid %d: %s", self.pid, error)

    async def _hold(self, native_id: str | None) -> None:
        """Lock the conversation we are in, and let go of the one we were in."""
        if not self._plan.state_dir or native_id is None:
            return
        if self._lock is None or self._lock.native_id != native_id:
            before, self._lock = self._lock, await ConversationLock.take(self._plan.state_dir, native_id)
            if before is not None:
                before.release()
        if self._started:
            self._lock.name(self.pid)

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._lock is not None:
            self._lock.release()
