"""One `codex app-server` process and the thread it is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from farsteer.agents.base import LaunchPlan, Prompt, Sink
from farsteer.agents.codex import protocol
from farsteer.agents.codex.approvals import PendingApprovals
from farsteer.agents.codex.input import turn_input
from farsteer.agents.codex.settings import SettingsTracker
from farsteer.agents.codex.thread_start import ThreadStarter, to_error
from farsteer.agents.codex.translator import Translator
from farsteer.agents.process_launch import ProcessLaunch
from farsteer.agents.rpc import Response, RpcClient
from farsteer.core.approvals import Answer, Approval
from farsteer.core.errors import AgentError, Conflict, ErrorCode, FarsteerError
from farsteer.core.events import TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.wire import WireStruct

CLIENT_INFO = {"name": "farsteer", "title": "Farsteer", "version": "0"}
INITIALIZE: dict[str, Any] = {"clientInfo": CLIENT_INFO, "capabilities": {"experimentalApi": True}}
"""The experimental API has `thread/revert` and the paging of turns."""
_CONFIRM_TIMEOUT = 30.0
"""After this time it is unknown whether Codex has taken a message, and its process is killed."""
_CALL_TIMEOUT = 15.0


class _Model(WireStruct):
    id: str
    hidden: bool = False


class _Models(WireStruct):
    data: list[_Model]


class _StartedTurn(WireStruct):
    turn: protocol.Turn


class CodexLaunch(ProcessLaunch):
    agent = "Codex"
    start_errors = (ErrorCode.CONVERSATION_MISSING, ErrorCode.ANCHOR_UNKNOWN)

    def __init__(
        self, plan: LaunchPlan, sink: Sink, on_models: Callable[[tuple[str, ...]], None] | None = None
    ) -> None:
        super().__init__(plan, sink)
        self._on_models = on_models
        self._translator = Translator(self._output)
        roots = plan.additional_directories
        self._settings = SettingsTracker(plan.permission_mode, plan.model, plan.effort, roots)
        self._approvals = PendingApprovals(
            self._output,
            self._settings,
            (plan.directory, *roots),
            self._translator.find_changes,
            self._write_soon,
        )
        self._rpc = RpcClient(self.agent, self._write, protocol.encode_request, to_error)
        self._confirming = False

    @classmethod
    async def start(
        cls, argv: Sequence[str], plan: LaunchPlan, sink: Sink,
        on_models: Callable[[tuple[str, ...]], None] | None = None,
    ) -> CodexLaunch:  # fmt: skip
        """Start Codex and open the plan's thread.

        Args:
            on_models: Called with the models that Codex lists, once they are known.

        Raises:
            AgentError: The start failed; no process is left.
        """
        launch = cls(plan, sink, on_models)
        await launch._start(argv, plan.environment)
        return launch

    async def _open(self) -> None:
        plan = self._plan
        await self._connect()
        await self._rpc.call("initialize", INITIALIZE, plan.startup_timeout)
        await self._write(protocol.encode_notification("initialized"))
        opened = await ThreadStarter(self._rpc, self._settings, plan).start()
        # A new thread is stored with its first message only, so that it cannot be resumed before.
        stored = plan.fork_of is not None or plan.decision.start is LaunchMode.RESUME
        self._translator.open_thread(opened.thread.id, stored=stored)
        if self._on_models is not None:
            self._background.spawn(self._list_models(self._on_models))

    async def _connect(self) -> None:
        """Connect to the process. Its pipes need nothing for that."""

    async def _list_models(self, receive: Callable[[tuple[str, ...]], None]) -> None:
        with suppress(FarsteerError):
            models = await self._rpc.ask("model/list", {}, _CALL_TIMEOUT, _Models)
            receive(tuple(model.id for model in models.data if not model.hidden))

    # -- the contract of a launch

    @property
    def native_id(self) -> str | None:
        return self._translator.thread_id

    async def send(self, prompt: Prompt) -> None:
        params = {
            "threadId": self.native_id, "input": turn_input(prompt), "clientUserMessageId": prompt.message_id or None,
            **self._settings.turn_params(),
        }  # fmt: skip
        self._output.begin(prompt.turn_id)
        self._translator.own_message = prompt.message_id or None
        self._confirming = True
        try:
            with self._handing_over():
                started = await self._rpc.ask("turn/start", params, _CONFIRM_TIMEOUT, _StartedTurn)
        except BaseException as error:
            self._approvals.clear()
            self._translator.forget_turn()
            self._output.abandon()
            if not isinstance(error, FarsteerError) or error.code in (
                ErrorCode.TIMEOUT,
                ErrorCode.AGENT_PROTOCOL,
            ):
                self._process.kill("it did not confirm a message")
            raise
        finally:
            self._confirming = False
        self._settings.turn_accepted()
        if self._output.turn_id == prompt.turn_id:
            self._translator.turn_id = started.turn.id

    def _handing_over(self) -> AbstractContextManager[None]:
        return self._process.handing_over()

    async def steer(self, prompt: Prompt) -> None:
        turn_id = self._translator.turn_id
        if self._output.turn_id is None or turn_id is None:
            raise Conflict("no turn is running")
        params = {
            "threadId": self.native_id, "expectedTurnId": turn_id, "input": turn_input(prompt),
            "clientUserMessageId": prompt.message_id or None,
        }  # fmt: skip
        if prompt.message_id:
            self._translator.steered[prompt.message_id] = None
        try:
            await self._rpc.call("turn/steer", params, _CALL_TIMEOUT)
        except FarsteerError as error:
            self._translator.steered.pop(prompt.message_id, None)
            if error.code is ErrorCode.BAD_REQUEST:
                raise Conflict(error.message) from None
            raise

    async def answer(self, approval: Approval, answer: Answer) -> None:
        await self._write(self._approvals.answer(approval, answer))

    async def interrupt(self) -> None:
        turn_id = self._translator.turn_id
        if self._output.turn_id is None or turn_id is None:
            return
        try:
            await self._rpc.call(
                "turn/interrupt", {"threadId": self.native_id, "turnId": turn_id}, _CALL_TIMEOUT
            )
        except FarsteerError:
            if self._translator.turn_id == turn_id and self._process.running:
                raise

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        self._settings.mode = mode

    async def set_model(self, model: str) -> None:
        self._settings.model = model

    async def set_effort(self, effort: ReasoningEffort) -> None:
        self._settings.effort = effort

    # -- output

    def _handle_line(self, line: bytes) -> None:
        self._handle_message(protocol.decode_line(line))

    def _handle_message(self, message: protocol.AnyLine) -> None:
        match message:
            case Response():
                if not self._rpc.handle_response(message) and message.error is not None:
                    text = f"Codex reports an error: {message.error.message}"
                    self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)
            case protocol.Request():
                self._approvals.handle_request(message)
            case protocol.UnknownNotification():
                self._translator.handle_unknown(message)
            case protocol.InvalidLine():
                self._output.add_notice(
                    f"Codex wrote an invalid line: {message.text}", ErrorCode.AGENT_PROTOCOL
                )
            case _:
                if isinstance(message, protocol.RequestResolved):
                    self._approvals.handle_resolved(message.request_id)
                self._translator.handle(message)
                if isinstance(message, protocol.TurnCompleted) and self._output.turn_id is None:
                    self._approvals.clear()

    def _handle_end(self, reason: TurnEndReason, error: str | None, died: AgentError) -> None:
        self._approvals.clear()
        if not self._confirming:
            self._translator.end_turn(reason, error)
        self._rpc.close(died)
