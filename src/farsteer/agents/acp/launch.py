"""One process of an agent that speaks the Agent Client Protocol, and the session that it has open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from farsteer.agents.acp import protocol
from farsteer.agents.acp.approvals import PendingApprovals
from farsteer.agents.acp.client_requests import ClientRequests
from farsteer.agents.acp.minute_files import keep_from_loss
from farsteer.agents.acp.prompt import prompt_content
from farsteer.agents.acp.session_start import SessionStarter, error_of, failure_text
from farsteer.agents.acp.settings import Change, SessionSettings
from farsteer.agents.acp.terminals import Terminals
from farsteer.agents.acp.translator import Translator
from farsteer.agents.acp.turn_watch import TurnWatch
from farsteer.agents.acp.usage import turn_usage
from farsteer.agents.base import LaunchPlan, Prompt, Sink
from farsteer.agents.catalog.definition import AgentDefinition, Trap
from farsteer.agents.process.environment import LAUNCH_VARIABLE, RUN_AS_VARIABLE
from farsteer.agents.process_launch import ProcessLaunch
from farsteer.agents.rpc import Response, RpcClient
from farsteer.core.approvals import Answer, Approval
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import Other, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchMode
from farsteer.core.lines import Line
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.jsonrpc.errors import AUTH_REQUIRED
from farsteer.jsonrpc.messages import as_object

_CALL_TIMEOUT = 30.0
_QUIET_SECONDS = 0.5
_REPLAY_SECONDS = 15.0
"""How long a replay may go on after the answer to `session/load`."""
_EARLY_UPDATES = 1000
"""How many updates are kept that arrive before the answer that names their session."""
_INVALID_LINES = 20
_STDERR_CHARS = 500
_TERMINATE_SECONDS = 0.5
_STOP_REASONS = {
    reason.value: reason
    for reason in (
        TurnEndReason.END_TURN, TurnEndReason.MAX_TOKENS, TurnEndReason.MAX_TURN_REQUESTS, TurnEndReason.REFUSAL,
        TurnEndReason.CANCELLED,
    )
}  # fmt: skip
_IGNORED = frozenset({"elicitation/complete"})


class AcpLaunch(ProcessLaunch):
    start_errors = (ErrorCode.CONVERSATION_MISSING, ErrorCode.AGENT_PROTOCOL)

    def __init__(
        self, definition: AgentDefinition, plan: LaunchPlan, sink: Sink,
        on_models: Callable[[tuple[str, ...]], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.agent = definition.title
        super().__init__(plan, sink)
        self._definition = definition
        self._on_models = on_models
        self._environment = {LAUNCH_VARIABLE: new_id(), **plan.environment}
        self._settings = SessionSettings(
            definition.title, definition.modes, plan.permission_mode, plan.model, plan.effort
        )
        self._terminals = Terminals(self._environment)
        self._translator = Translator(self._output, self._settings, self._terminals.output_of)
        self._translator.on_options = self._tell_models
        roots = (plan.directory, *plan.additional_directories)
        self._approvals = PendingApprovals(
            self._output, self._settings, self._translator, roots, self._write_soon
        )
        serves_files = RUN_AS_VARIABLE not in plan.environment
        self._requests = ClientRequests(
            self._output, self._approvals, self._terminals, roots, plan.environment.get("PATH"),
            reading_tools=definition.reading_tools, serves_files=definition.client_files and serves_files,
            serves_terminals=definition.client_terminals, write=self._write_soon, spawn=self._background.spawn,
        )  # fmt: skip
        self._rpc = RpcClient(self.agent, self._write, protocol.encode_request, error_of(definition.title))
        self._starter = SessionStarter(self._rpc, definition, plan.startup_timeout, serves_files=serves_files)
        self._watch = TurnWatch(self._settle, self._tell_silence)
        self._can = protocol.AgentCapabilities()
        self._early: list[protocol.SessionUpdate] = []
        self._prompt_id: int | None = None
        self._ended: Response | None = None
        """The answer to the prompt, until what was read with it is handled."""
        self._sending = False
        self._interrupted = False
        self._invalid_lines = 0
        self._line_arrived = asyncio.Event()

    @classmethod
    async def start(
        cls, argv: Sequence[str], definition: AgentDefinition, plan: LaunchPlan, sink: Sink,
        on_models: Callable[[tuple[str, ...]], None] = lambda _: None,
    ) -> AcpLaunch:  # fmt: skip
        """Start the agent and open the plan's session.

        Args:
            on_models: Called with the models that the agent lists, once they are known.

        Raises:
            AgentError: The start failed; no process is left.
            NotCapable: The agent cannot do what the plan asks for; no process is left.
        """
        launch = cls(definition, plan, sink, on_models)
        native_id = plan.decision.native_id
        resumes = plan.decision.start is LaunchMode.RESUME and native_id is not None
        if resumes and Trap.FILE_PER_MINUTE in definition.traps:
            await asyncio.to_thread(keep_from_loss, plan.environment, str(native_id), plan.state_dir)
        await launch._start(
            argv, {**launch._environment, **prepared(definition, plan.state_dir, plan.environment)}
        )
        return launch

    async def _open(self) -> None:
        self._can = await self._starter.initialize()
        plan = self._plan
        if plan.decision.start is LaunchMode.RESUME and plan.fork_of is None:
            self._translator.session_id = plan.decision.native_id
        session_id, opened = await self._starter.open(plan, self._translator, self._wait_quiet)
        stored = plan.decision.start is LaunchMode.RESUME and plan.fork_of is None
        self._translator.open_session(session_id, stored=stored)
        self._settings.handle_opened(opened)
        early, self._early = self._early, []
        for update in early:
            self._handle_update(update)
        for change in self._settings.initial_changes():
            await self._apply(change)
        self._tell_models()

    async def _wait_quiet(self) -> None:
        """Return when the agent has written nothing for a while. Bounded."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_REPLAY_SECONDS):
                while await self._writes_within(_QUIET_SECONDS):
                    pass

    async def _writes_within(self, seconds: float) -> bool:
        self._line_arrived.clear()
        # Not `asyncio.timeout`, whose TimeoutError could not be told from the one around the whole wait.
        arrived = asyncio.ensure_future(self._line_arrived.wait())
        try:
            await asyncio.wait([arrived], timeout=seconds)
            return arrived.done()
        finally:
            arrived.cancel()

    def _tell_models(self) -> None:
        self._on_models(self._settings.models)

    # -- the contract of a launch

    @property
    def native_id(self) -> str | None:
        return self._translator.session_id

    async def send(self, prompt: Prompt) -> None:
        content = prompt_content(prompt, self._can.prompt_capabilities, self.agent)
        self._output.begin(prompt.turn_id)
        self._translator.begin_turn()
        self._interrupted = False
        self._prompt_id = self._rpc.next_id()
        params = {"sessionId": self.native_id, "prompt": content}
        self._sending = True
        try:
            with self._process.handing_over():
                await self._write(protocol.encode_request(self._prompt_id, "session/prompt", params))
        except BaseException:
            self._approvals.clear()
            self._prompt_id = self._ended = None
            self._output.abandon()
            self._process.kill("it did not read a message")
            raise
        finally:
            self._sending = False
        if Trap.SILENT_RETRIES in self._definition.traps:
            self._watch.begin_turn()

    async def answer(self, approval: Approval, answer: Answer) -> None:
        self._approvals.answer(approval, answer)

    async def interrupt(self) -> None:
        if self._output.turn_id is None:
            return
        self._interrupted = True
        self._approvals.cancel_all()
        await self._write(protocol.encode_notification("session/cancel", {"sessionId": self.native_id}))
        await self._deliver()

    async def stop(self, grace: float = 3.0) -> None:
        outlives = Trap.OUTLIVES_STDIN in self._definition.traps
        await super().stop(min(grace, _TERMINATE_SECONDS) if outlives else grace)

    def check_settings(self, model: str | None, effort: ReasoningEffort | None) -> None:
        self._settings.check(model, effort)

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        for change in self._settings.mode_changes(mode):
            await self._apply(change)

    async def set_model(self, model: str) -> None:
        self._settings.check(model, None)
        await self._apply(self._settings.model_change(model))

    async def set_effort(self, effort: ReasoningEffort) -> None:
        self._settings.check(None, effort)
        await self._apply(self._settings.effort_change(effort))

    async def _apply(self, change: Change) -> None:
        """Change a setting of the agent. Raises FarsteerError if it does not."""
        params = {"sessionId": self.native_id, **change.params}
        self._settings.is_changing = True
        try:
            result = await self._rpc.call(change.method, params, _CALL_TIMEOUT)
            with suppress(AgentError):
                changed = protocol.decode_result(result, protocol.ChangedOptions, self.agent, change.method)
                if changed.config_options is not None:
                    self._settings.handle_options(changed.config_options)
        finally:
            self._settings.is_changing = False
        if change.is_mode:
            self._settings.check_mode()

    # -- output

    async def _handle_lines(self, lines: list[Line]) -> None:
        self._watch.touch()
        self._line_arrived.set()
        await super()._handle_lines(lines)
        if self._output.turn_id is None and self._translator.has_open_message:
            self._watch.settle_later()

    async def _deliver(self) -> None:
        if self._ended is not None:
            # What the agent wrote together with its answer still belongs to the turn.
            response, self._ended = self._ended, None
            self._end_turn(response)
        await super()._deliver()

    def _handle_line(self, line: bytes) -> None:
        message = protocol.decode_line(line)
        match message:
            case protocol.SessionUpdate():
                self._handle_update(message)
            case Response():
                if message.id == self._prompt_id and self._prompt_id is not None:
                    self._prompt_id, self._ended = None, message
                elif not self._rpc.handle_response(message) and message.error is not None:
                    text = f"{self.agent} reports an error: {failure_text(message.error)}"
                    self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)
            case protocol.Request():
                self._requests.handle(message)
            case protocol.OtherNotification():
                self._handle_notification(message)
            case protocol.InvalidLine():
                self._invalid_lines += 1
                if self._invalid_lines <= _INVALID_LINES:
                    more = " (further ones are not shown)" if self._invalid_lines == _INVALID_LINES else ""
                    text = f"{self.agent} wrote an invalid line{more}: {message.text}"
                    self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)

    def _handle_update(self, message: protocol.SessionUpdate) -> None:
        known = self._translator.session_id
        if known is None:
            if len(self._early) < _EARLY_UPDATES:
                self._early.append(message)
        elif message.session_id == known:
            self._translator.handle(message.update)
        elif not self._translator.is_replaying:
            # Another session of the agent, such as that of a sub-agent.
            data = {"sessionId": message.session_id, "update": message.update}
            self._output.add_event(Other(native_kind="session/update", data=data))

    def _handle_notification(self, message: protocol.OtherNotification) -> None:
        if message.method == "$/cancel_request":
            self._approvals.withdraw((as_object(message.params) or {}).get("requestId"))
        elif message.method not in _IGNORED and not message.method.startswith("_"):
            self._output.add_event(Other(native_kind=message.method, data=message.params))

    # -- the end of a turn

    def _end_turn(self, response: Response) -> None:
        self._watch.end_turn()
        self._approvals.cancel_all()
        self._approvals.clear()
        if response.error is not None:
            self._fail_turn(self._error_text(response))
            return
        try:
            ended = protocol.decode_result(
                response.result, protocol.PromptEnded, self.agent, "session/prompt"
            )
        except AgentError as error:
            self._fail_turn(error.message)
            return
        used = turn_usage(ended)
        if used is not None:
            self._output.add_event(used)
        reason = _STOP_REASONS.get(ended.stop_reason)
        if reason is None:
            text = f"{self.agent} ended the turn for an unknown reason: {ended.stop_reason}"
            self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)
            reason = TurnEndReason.END_TURN
        if self._interrupted:
            reason = TurnEndReason.CANCELLED
        hides_errors = Trap.EMPTY_TURN_IS_ERROR in self._definition.traps
        if hides_errors and reason is TurnEndReason.END_TURN and self._translator.is_empty:
            self._fail_turn(
                f"{self.agent} ended the turn without an answer. That is how it ends after an error."
            )
            return
        self._translator.end_turn(reason)

    def _fail_turn(self, error: str) -> None:
        if self._interrupted:
            # Some agents answer an interrupted prompt with an error.
            self._translator.end_turn(TurnEndReason.CANCELLED)
            return
        if Trap.KEEPS_FAILED_PROMPTS in self._definition.traps:
            text = (
                f"{self.agent} will show the message of this turn to its model again, with the next message."
            )
            self._output.add_notice(text, "prompt_kept")
        self._translator.end_turn(TurnEndReason.FAILED, error)

    def _error_text(self, response: Response) -> str:
        assert response.error is not None
        text = f"{self.agent}: {failure_text(response.error)}"
        if response.error.code == AUTH_REQUIRED and self._definition.login:
            text = f"{text}. Log in: {self._definition.login}"
        return text

    def _handle_end(self, reason: TurnEndReason, error: str | None, died: AgentError) -> None:
        self._watch.close()
        self._approvals.clear()
        self._background.spawn(self._terminals.close())
        self._prompt_id = self._ended = None
        if not self._sending:
            self._translator.end_turn(reason, error)
        self._rpc.close(died)

    # -- while the agent is quiet

    def _settle(self) -> None:
        """Emit a message that came after the end of its turn. Nothing says that it is complete but the quiet."""
        if self._output.turn_id is None and self._translator.has_open_message:
            self._translator.finish_message()
            self._background.spawn(self._deliver())

    def _tell_silence(self, seconds: float) -> bool:
        """Tell a person that nothing comes, unless that is as it should be. Returns whether it was told."""
        if self._output.turn_id is None or self._approvals.is_waiting or self._translator.calls.has_open:
            return False
        text = (
            f"{self.agent} has been silent for {seconds:.0f} s. It asks a model that fails again and again without"
            " saying so. An interrupt ends the turn."
        )
        self._output.add_notice(text, "agent_silent")
        self._background.spawn(self._deliver())
        return True


def prepared(definition: AgentDefinition, state_dir: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Write the files of a definition, and return the variables of an agent that tell it where they are."""
    variables = dict(definition.environment)
    if state_dir and RUN_AS_VARIABLE not in environment:
        for file in definition.files:
            path = os.path.join(state_dir, file.name)
            written = f"{path}.{new_id()}"
            with open(
                os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w"
            ) as target:
                target.write(file.content)
            os.replace(written, path)
            variables[file.variable] = path
    return variables
