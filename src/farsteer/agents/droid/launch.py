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

from farsteer.agents.base import LaunchPlan, Prompt, Sink
from farsteer.agents.droid.cli import ENVIRONMENT
from farsteer.agents.droid.dispatcher import LineDispatcher
from farsteer.agents.droid.file_restore import FileRestorer
from farsteer.agents.droid.lock import ConversationLock
from farsteer.agents.droid.models import KnownModels
from farsteer.agents.droid.protocol import Request
from farsteer.agents.droid.rpc import RpcClient
from farsteer.agents.droid.session_start import OpenedSession, SessionStarter
from farsteer.agents.droid.settings import SettingsTracker
from farsteer.agents.droid.transcripts import delete_conversation
from farsteer.agents.droid.turn_completion import TurnOutcome
from farsteer.agents.droid.usage import UsageStore, UsageTracker
from farsteer.agents.process_launch import ProcessLaunch
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
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF_TYPE = "application/pdf"


class DroidLaunch(ProcessLaunch):
    agent = "Droid"
    start_errors = (ErrorCode.CONVERSATION_MISSING, ErrorCode.ANCHOR_UNKNOWN, ErrorCode.CONFLICT)
    refusals = (ErrorCode.MODEL_UNKNOWN, ErrorCode.EFFORT_UNKNOWN, ErrorCode.NOT_CAPABLE)

    def __init__(
        self, plan: LaunchPlan, sink: Sink, on_models: Callable[[KnownModels], None] | None = None, *,
        restores_files: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(plan, sink)
        self._on_models = on_models
        self._restores_files = restores_files
        self._settings = SettingsTracker(plan.permission_mode, plan.model, plan.effort)
        self._rpc = RpcClient(self._write)
        self._starter = SessionStarter(self._rpc, self._settings, plan)
        usage = UsageTracker(UsageStore(plan.state_dir))
        self._dispatcher = LineDispatcher(self._output, self._rpc, self._settings, usage, self._write_soon)
        self._timer: asyncio.TimerHandle | None = None
        self._conversation_lock: ConversationLock | None = None
        self._close_answered = asyncio.Event()
        """Droid has exited or has rejected `close_session`."""

    @classmethod
    async def start(
        cls, argv: Sequence[str], plan: LaunchPlan, sink: Sink,
        on_models: Callable[[KnownModels], None] | None = None, *, restores_files: bool = True,
    ) -> DroidLaunch:  # fmt: skip
        """Start Droid and open the plan's session.

        Args:
            on_models: Called with the models that Droid lists.
            restores_files: This version of Droid can restore files.

        Raises:
            AgentError: The start failed; no process is left.
        """
        launch = cls(plan, sink, on_models, restores_files=restores_files)
        resumed = plan.decision.native_id if plan.decision.start is LaunchMode.RESUME else None
        try:
            await launch._lock_conversation(resumed, pid=None)
            await launch._start(argv, {**plan.environment, **ENVIRONMENT})
        except BaseException as error:
            launch._release()
            created = launch._starter.created_id
            if isinstance(error, FarsteerError) and error.code in cls.refusals and created is not None:
                await asyncio.to_thread(delete_conversation, Path.home(), created)
            raise
        return launch

    async def _open(self) -> None:
        if self._conversation_lock is not None:
            self._conversation_lock.record_process(self.pid)
        session = await self._starter.start()
        self._enter_session(session)
        await self._lock_conversation(session.session_id, pid=self.pid)

    def _enter_session(self, session: OpenedSession) -> None:
        """Register the session: from now on it can be resumed, even if it has no message yet."""
        assert session.session_id is not None
        dispatcher = self._dispatcher
        if self._on_models is not None:
            self._on_models(self._settings.models)
        dispatcher.translator.open_session(session.session_id, session.total_usage)
        for event in self._settings.confirm():
            self._output.add_event(event)
        for method, pending in (
            (REQUEST_PERMISSION, session.pending_permissions),
            (ASK_USER, session.pending_ask_user_requests),
        ):
            for params in pending or ():
                request_id = str(params.get("requestId"))
                request = Request(id=request_id, method=method, params=msgspec.Raw(encode(params)))
                dispatcher.approvals.handle_request(request)

    # -- the contract of a launch

    @property
    def native_id(self) -> str | None:
        return self._dispatcher.translator.session_id

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
        await super().stop(grace)

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
            self._output.add_event(event)
        await self._deliver()

    @property
    def _is_turn_running(self) -> bool:
        return self._output.turn_id is not None

    # -- output

    async def _handle_lines(self, lines: list[Line]) -> None:
        before = self.native_id
        self._dispatcher.handle_lines(lines)
        if self._dispatcher.close_unsupported:
            self._close_answered.set()
        if before is not None and self.native_id != before:
            await self._lock_conversation(self.native_id, pid=self.pid)
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

    def _handle_end(self, reason: TurnEndReason, error: str | None, died: AgentError) -> None:
        self._dispatcher.handle_exit(TurnOutcome(reason, error))
        self._rpc.close(died)
        self._close_answered.set()
        self._release()

    # -- the lock

    async def _lock_conversation(self, native_id: str | None, *, pid: int | None) -> None:
        """Lock the current conversation for the process, as soon as it runs, and release the previous one."""
        if not self._plan.state_dir or native_id is None:
            return
        previous = self._conversation_lock
        if previous is None or previous.native_id != native_id:
            self._conversation_lock = await ConversationLock.acquire(self._plan.state_dir, native_id)
            if previous is not None:
                previous.release()
        if pid is not None and self._conversation_lock is not None:
            self._conversation_lock.record_process(pid)

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
