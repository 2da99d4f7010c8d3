"""One Droid process and the session it is in."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from farsteer.agents.base import Exited, Launch, LaunchPlan, Prompt, Sink
from farsteer.agents.droid.cli import ENVIRONMENT
from farsteer.agents.droid.dispatcher import LineDispatcher
from farsteer.agents.droid.file_restore import FileRestorer
from farsteer.agents.droid.lock import ConversationLock
from farsteer.agents.droid.protocol import Request
from farsteer.agents.droid.rpc import RpcClient
from farsteer.agents.droid.session_start import OpenedSession, SessionStarter
from farsteer.agents.droid.settings import SettingsTracker
from farsteer.agents.droid.transcripts import delete_conversation
from farsteer.agents.droid.turn_completion import TurnOutcome
from farsteer.agents.droid.usage import UsageStore, UsageTracker
from farsteer.agents.process import AgentProcess, ProcessExit
from farsteer.agents.process.background import BackgroundWork
from farsteer.core.approvals import Answer, Approval
from farsteer.core.droid import ASK_USER, PROCEED_NEW_SESSION, REQUEST_PERMISSION, Method
from farsteer.core.errors import AgentError, BadRequest, Conflict, ErrorCode, FarsteerError, NotCapable
from farsteer.core.events import FilesRestored, TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.lines import Line
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Attachment
from farsteer.core.wire import encode

_CONFIRM_TIMEOUT = 30.0
"""After this time it is unknown whether Droid has taken a message, and its process is killed."""
_SETTINGS_TIMEOUT = 15.0
_CLOSE_TIMEOUT = 5.0
_WRITE_TIMEOUT = 10.0
_START_ERRORS = (ErrorCode.CONVERSATION_MISSING, ErrorCode.ANCHOR_UNKNOWN, ErrorCode.CONFLICT)
"""Codes that a failed start keeps; all others become `agent_start_failed`."""
_REFUSALS = (ErrorCode.MODEL_UNKNOWN, ErrorCode.EFFORT_UNKNOWN, ErrorCode.NOT_CAPABLE)
"""Droid cannot do what the caller asked for: the start is refused, it has not failed."""
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF_TYPE = "application/pdf"


class DroidLaunch(Launch):
    def __init__(
        self, plan: LaunchPlan, sink: Sink, on_models: Callable[[tuple[str, ...]], None] | None = None, *,
        restores_files: bool = True,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._on_models = on_models
        self._restores_files = restores_files
        self._sink = sink
        self._settings = SettingsTracker(plan.permission_mode, plan.model, plan.effort)
        self._rpc = RpcClient(self._write)
        usage = UsageTracker(UsageStore(plan.state_dir))
        self._dispatcher = LineDispatcher(self._rpc, self._settings, usage, self._write_soon)
        self._sink_lock = asyncio.Lock()
        self._background = BackgroundWork("droid")
        self._timer: asyncio.TimerHandle | None = None
        self._conversation_lock: ConversationLock | None = None
        self._has_process = self._ready = False
        self._exit_error: AgentError | None = None
        self._stopping = False
        self._close_answered = asyncio.Event()
        """Droid has exited or has rejected `close_session`."""

    @classmethod
    async def start(
        cls, argv: Sequence[str], plan: LaunchPlan, sink: Sink,
        on_models: Callable[[tuple[str, ...]], None] | None = None, *, restores_files: bool = True,
    ) -> DroidLaunch:  # fmt: skip
        """Start Droid and open the plan's session.

        Args:
            on_models: Called with the models that Droid lists.
            restores_files: This version of Droid can restore files.

        Raises:
            AgentError: The start failed; no process is left.
        """
        launch = cls(plan, sink, on_models, restores_files=restores_files)
        try:
            await launch._start(argv)
        except BaseException:
            launch._release()
            raise
        return launch

    async def _start(self, argv: Sequence[str]) -> None:
        plan = self._plan
        if plan.decision.start is LaunchMode.RESUME and plan.decision.native_id is not None:
            await self._lock_conversation(plan.decision.native_id)
        self._process = AgentProcess.start(
            argv, cwd=plan.directory, environment={**plan.environment, **ENVIRONMENT}, on_lines=self._handle_lines,
            on_exit=self._handle_exit,
        )  # fmt: skip
        self._has_process = True
        if self._conversation_lock is not None:
            self._conversation_lock.record_process(self.pid)
        starter = SessionStarter(self._rpc, self._settings, plan)
        try:
            async with asyncio.timeout(plan.startup_timeout):
                session = await starter.start()
                self._enter_session(session)
                await self._lock_conversation(session.session_id)
                await self._deliver()
            if self._exit_error is not None:
                raise self._exit_error
            self._ready = True
        except TimeoutError:
            raise await self._start_error(f"Droid was not ready within {plan.startup_timeout:g} s") from None
        except FarsteerError as error:
            failure = await self._start_error(error.message, error.code, **error.details)
            if error.code not in _REFUSALS:
                raise failure from None
            if starter.created_id is not None:
                await asyncio.to_thread(delete_conversation, Path.home(), starter.created_id)
            raise
        finally:
            if not self._ready:
                self._process.kill("it did not start")
                await self._process.wait_reaped()

    def _enter_session(self, session: OpenedSession) -> None:
        """Register the session: from now on it can be resumed, even if it has no message yet."""
        assert session.session_id is not None
        dispatcher = self._dispatcher
        if self._on_models is not None:
            self._on_models(self._settings.models.names)
        dispatcher.translator.open_session(session.session_id, session.total_usage)
        for event in self._settings.confirm():
            dispatcher.output.add_event(event)
        for method, pending in (
            (REQUEST_PERMISSION, session.pending_permissions),
            (ASK_USER, session.pending_ask_user_requests),
        ):
            for params in pending or ():
                request_id = str(params.get("requestId"))
                request = Request(id=request_id, method=method, params=msgspec.Raw(encode(params)))
                dispatcher.approvals.handle_request(request)

    async def _start_error(self, message: str, code: ErrorCode | None = None, **details: Any) -> AgentError:
        self._process.kill("it did not start")
        await self._process.wait()
        stderr = self._process.stderr or None
        our_code = code if code in _START_ERRORS else ErrorCode.AGENT_START_FAILED
        return AgentError(message, code=our_code, **{**details, "stderr": stderr})

    # -- the contract of a launch

    @property
    def native_id(self) -> str | None:
        return self._dispatcher.translator.session_id

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, prompt: Prompt) -> None:
        params = message_params(prompt)
        request_id = self._rpc.next_id()
        self._dispatcher.start_turn(prompt.turn_id, request_id)
        try:
            with self._process.handing_over():
                await self._rpc.call(Method.ADD_USER_MESSAGE, params, _CONFIRM_TIMEOUT, request_id=request_id)
        except BaseException as error:
            self._dispatcher.abandon_turn()
            if not isinstance(error, FarsteerError) or error.code is ErrorCode.TIMEOUT:
                self._process.kill("it did not confirm a message")
            raise

    async def answer(self, approval: Approval, answer: Answer) -> None:
        line = self._dispatcher.approvals.answer(approval, answer)
        if (answer.option_id or "").startswith(PROCEED_NEW_SESSION):
            self._dispatcher.translator.expect_new_session()
        await self._write(line)

    async def interrupt(self) -> None:
        if self._is_turn_running:
            self._dispatcher.completion.interrupt_requested()
            await self._rpc.send(Method.INTERRUPT_SESSION, {})

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        if not self._restores_files:
            raise NotCapable("this version of Droid cannot restore files")
        if self._is_turn_running:
            raise Conflict("a turn is running")
        assert self.native_id is not None
        return await FileRestorer(self._rpc, Path.home(), self.native_id).restore(message_id, after)

    def check_settings(self, model: str | None, effort: ReasoningEffort | None) -> None:
        self._settings.check(model, effort)

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        await self._change_settings(self._settings.request(mode=mode))

    async def set_model(self, model: str) -> None:
        await self._change_settings(self._settings.request(model=model))

    async def set_effort(self, effort: ReasoningEffort) -> None:
        await self._change_settings(self._settings.request(effort=effort))

    async def stop(self, grace: float = 3.0) -> None:
        """Ask Droid to close the session before the process is stopped: after EOF or SIGTERM it would work on."""
        if not self._stopping and self._process.running:
            self._stopping = True
            self._dispatcher.completion.shut_down()
            with suppress(TimeoutError, FarsteerError):
                async with asyncio.timeout(min(grace, _CLOSE_TIMEOUT)):
                    await self._close_session()
        await self._process.stop(grace)
        # Bounded, because the sink may be waiting for this call.
        with suppress(TimeoutError):
            async with asyncio.timeout(max(grace, 1.0)):
                await self._process.wait()

    async def _close_session(self) -> None:
        await self._rpc.send(Method.CLOSE_SESSION, {"reason": "other"})
        await self._close_answered.wait()
        if self._dispatcher.close_unsupported and self._is_turn_running:
            # An older CLI: without a turn it exits at the end of its input.
            await self._rpc.send(Method.INTERRUPT_SESSION, {})

    async def _change_settings(self, params: dict[str, Any]) -> None:
        try:
            await self._rpc.call(Method.UPDATE_SESSION_SETTINGS, params, _SETTINGS_TIMEOUT)
        except BaseException:
            self._settings.roll_back()
            raise
        ignored = self._settings.ignored()
        if ignored is not None:
            self._settings.roll_back()
            raise ignored
        for event in self._settings.confirm():
            self._dispatcher.output.add_event(event)
        await self._deliver()

    @property
    def _is_turn_running(self) -> bool:
        return self._dispatcher.output.turn_id is not None

    # -- output

    async def _handle_lines(self, lines: list[Line]) -> None:
        before = self.native_id
        self._dispatcher.handle_lines(lines)
        if self._dispatcher.close_unsupported:
            self._close_answered.set()
        if before is not None and self.native_id != before:
            await self._lock_conversation(self.native_id)
        self._restart_timer()
        await self._deliver()

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        timeout = self._dispatcher.silence_timeout
        if timeout is not None:
            self._timer = asyncio.get_running_loop().call_later(timeout, self._handle_silence)

    def _handle_silence(self) -> None:
        if self._dispatcher.silence_timeout is not None:
            self._dispatcher.end_turn(self._dispatcher.completion.result_after_timeout())
            self._background.spawn(self._deliver())

    async def _deliver(self) -> None:
        async with self._sink_lock:
            outputs = self._dispatcher.output.drain()
            if outputs:
                await self._sink.put(outputs)

    async def _handle_exit(self, ended: ProcessExit) -> None:
        requested = self._stopping or ended.asked is not None
        reason = TurnEndReason.CANCELLED if requested else TurnEndReason.CRASHED
        self._dispatcher.handle_exit(TurnOutcome(reason, f"Droid's process ended: {ended.reason}"))
        self._exit_error = AgentError(f"Droid ended: {ended.reason}", code=ErrorCode.AGENT_DIED)
        self._rpc.close(self._exit_error)
        self._close_answered.set()
        self._release()
        await self._background.finish()
        if not self._ready:
            return
        exit_reason = "stopped" if self._stopping else ended.reason
        exited = Exited(exit_code=ended.code, reason=exit_reason, stderr=ended.stderr or None)
        self._dispatcher.output.add(exited)
        await self._deliver()

    # -- input

    async def _write(self, line: bytes) -> None:
        await self._process.write(line, _WRITE_TIMEOUT)

    def _write_soon(self, line: bytes) -> None:
        self._background.spawn(self._write(line))

    # -- the lock

    async def _lock_conversation(self, native_id: str | None) -> None:
        """Lock the current conversation and release the previous one."""
        if not self._plan.state_dir or native_id is None:
            return
        previous = self._conversation_lock
        if previous is None or previous.native_id != native_id:
            self._conversation_lock = await ConversationLock.acquire(self._plan.state_dir, native_id)
            if previous is not None:
                previous.release()
        if self._has_process and self._conversation_lock is not None:
            self._conversation_lock.record_process(self.pid)

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._conversation_lock is not None:
            self._conversation_lock.release()


def message_params(prompt: Prompt) -> dict[str, Any]:
    """Return the parameters of `add_user_message`. Raises BadRequest for an attachment that Droid does not take."""
    params: dict[str, Any] = {"text": prompt.text}
    if prompt.message_id:
        # Newer CLIs use this id for the message, older ones choose their own.
        params["messageId"] = prompt.message_id
    images = [_image(one) for one in prompt.attachments if one.mime_type in _IMAGE_TYPES]
    files = [_file(one) for one in prompt.attachments if one.mime_type not in _IMAGE_TYPES]
    if images:
        params["images"] = images
    if files:
        params["files"] = files
    return params


def _image(attachment: Attachment) -> dict[str, Any]:
    return {"type": "base64", "data": _data(attachment), "mediaType": attachment.mime_type}


def _file(attachment: Attachment) -> dict[str, Any]:
    data = _data(attachment)
    if attachment.mime_type == _PDF_TYPE:
        return {"type": "base64", "mediaType": _PDF_TYPE, "data": data, "name": attachment.name}
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadRequest(
            f"Droid accepts images, PDFs and text files, not {attachment.name} ({attachment.mime_type})"
        ) from None
    return {"type": "text", "mediaType": "text/plain", "data": text, "name": attachment.name}


def _data(attachment: Attachment) -> str:
    if attachment.data is None:
        raise BadRequest(f"attachment {attachment.name} has no content")
    return attachment.data
