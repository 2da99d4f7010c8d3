"""One process of Claude Code and the conversation it is in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

from farsteer.agents.base import LaunchPlan, Prompt, Sink
from farsteer.agents.claude import arguments, cli, protocol, transcripts
from farsteer.agents.claude.approvals import GUARD, PendingApprovals
from farsteer.agents.claude.control import ControlChannel
from farsteer.agents.claude.input import message_content
from farsteer.agents.claude.settings import SettingsTracker, native_mode
from farsteer.agents.claude.start_errors import start_error
from farsteer.agents.claude.todos import TodoList
from farsteer.agents.claude.translator import Translator
from farsteer.agents.claude.usage import UsageTracker
from farsteer.agents.process_launch import ProcessLaunch
from farsteer.core.approvals import Answer, Approval, Outcome
from farsteer.core.errors import AgentError, BadRequest, Conflict, ErrorCode, FarsteerError
from farsteer.core.events import (
    CommandsUpdate,
    FileRestore,
    FilesRestored,
    Notice,
    SlashCommand,
    TurnEndReason,
)
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.launch import LaunchMode
from farsteer.core.modes import PermissionMode, ReasoningEffort

INITIALIZE: dict[str, Any] = {"hooks": {"PreToolUse": [{"matcher": None, "hookCallbackIds": [GUARD]}]}}
_CONFIRM_TIMEOUT = 30.0
"""After this time it is unknown whether Claude Code has taken a message, and its process is killed."""
_CALL_TIMEOUT = 15.0
_RESTORE_TIMEOUT = 60.0
_MAX_FILES = 1000


class Command(NamedTuple):
    """What to start."""

    argv: Sequence[str]
    environment: Mapping[str, str]


class ClaudeLaunch(ProcessLaunch):
    agent = "Claude Code"

    def __init__(
        self, plan: LaunchPlan, sink: Sink, command: Command,
        on_models: Callable[[tuple[str, ...]], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(plan, sink)
        self._command = command
        self._on_models = on_models
        self._settings = SettingsTracker(plan.permission_mode, plan.model, plan.effort)
        config = cli.config_dir(command.environment)
        self._native_id = plan.decision.native_id or plan.session_id
        self._usage = UsageTracker()
        self._translator = Translator(
            self._output, self._settings, self._usage, self._native_id, plan.directory, plan.source,
            TodoList(config / "tasks" / self._native_id),
        )  # fmt: skip
        self._translator.on_taken = self._handle_taken
        self._approvals = PendingApprovals(
            self._output, self._settings, str(config / "plans"), self._translator.find_input, self._write_soon
        )
        self._control = ControlChannel(self._write)
        self._taken: dict[str, asyncio.Future[None]] = {}
        """The messages that Claude Code has not confirmed yet."""
        self._confirming = False
        self._start_result: protocol.Result | None = None

    @classmethod
    async def start(
        cls, command: Command, plan: LaunchPlan, sink: Sink,
        on_models: Callable[[tuple[str, ...]], None] | None = None,
    ) -> ClaudeLaunch:  # fmt: skip
        """Start Claude Code in the plan's conversation.

        Args:
            on_models: Called with the models that Claude Code lists.

        Raises:
            AgentError: The start failed; no process is left.
        """
        launch = cls(plan, sink, command, on_models)
        await launch._read_usage()
        await launch._start(command.argv, command.environment)
        return launch

    async def _read_usage(self) -> None:
        """Take what the conversation has used so far."""
        plan = self._plan
        source = plan.fork_of or (self._native_id if plan.decision.start is LaunchMode.RESUME else None)
        if source is not None:
            config = cli.config_dir(self._command.environment)
            self._usage.go_on_from(await asyncio.to_thread(transcripts.stored_usage, config, source))

    async def _open(self) -> None:
        known = await self._control.ask("initialize", self._plan.startup_timeout, **INITIALIZE)
        if self._plan.mcp_servers:
            await self._set_mcp_servers()
        self._report(known)
        if self._plan.decision.start is LaunchMode.RESUME:
            self._translator.register()

    def _start_error(self, error: FarsteerError) -> AgentError:
        errors = self._start_result.errors if self._start_result is not None else []
        return start_error(error.message, self._process.stderr, errors)

    async def _set_mcp_servers(self) -> None:
        servers = arguments.mcp_servers(self._plan.mcp_servers)
        result = await self._control.ask("mcp_set_servers", self._plan.startup_timeout, servers=servers)
        errors = result.get("errors")
        if isinstance(errors, dict):
            for name, error in cast("dict[str, Any]", errors).items():
                text = f"The MCP server {name} did not start: {error}"
                self._output.add_notice(text, "mcp_status")

    def _report(self, known: dict[str, Any]) -> None:
        """Take what Claude Code says about itself: its commands and models."""
        commands = tuple(
            SlashCommand(name=str(one["name"]), description=str(one.get("description") or ""))
            for one in _objects(known.get("commands"))
            if one.get("name")
        )
        self._output.add_event(CommandsUpdate(commands=commands))
        models = tuple(str(one["value"]) for one in _objects(known.get("models")) if one.get("value"))
        if self._on_models is not None and models:
            self._on_models(models)

    # -- the contract of a launch

    @property
    def native_id(self) -> str | None:
        return self._translator.native_id

    @property
    def _is_working(self) -> bool:
        return self._output.turn_id is not None

    async def send(self, prompt: Prompt) -> None:
        content = message_content(prompt)
        self._translator.leave_own_turn()
        self._output.begin(prompt.turn_id)
        self._confirming = True
        uuid = prompt.message_id if is_uuid(prompt.message_id) else new_id()
        try:
            with self._process.handing_over():
                await self._hand_over(uuid, content)
        except BaseException as error:
            self._approvals.clear()
            self._translator.forget_turn()
            self._output.abandon()
            if not isinstance(error, FarsteerError) or error.code is ErrorCode.TIMEOUT:
                self._process.kill("it did not confirm a message")
            raise
        finally:
            self._confirming = False

    async def steer(self, prompt: Prompt) -> None:
        content = message_content(prompt)
        if self._output.turn_id is None:
            raise Conflict("no turn is running")
        await self._hand_over(prompt.message_id if is_uuid(prompt.message_id) else new_id(), content)

    async def _hand_over(self, uuid: str, content: str | list[dict[str, Any]]) -> None:
        """Write a message and wait until Claude Code has taken it."""
        self._translator.begin_message(uuid)
        taken = self._taken[uuid] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_CONFIRM_TIMEOUT):
                await self._write(protocol.encode_user(uuid, content))
                await taken
        except TimeoutError:
            raise AgentError("Claude Code did not confirm the message", code=ErrorCode.TIMEOUT) from None
        finally:
            del self._taken[uuid]

    def _handle_taken(self, uuid: str) -> None:
        taken = self._taken.get(uuid)
        if taken is not None and not taken.done():
            taken.set_result(None)

    async def answer(self, approval: Approval, answer: Answer) -> None:
        line = self._approvals.answer(approval, answer)
        if answer.outcome is Outcome.ABORT:
            self._translator.interrupt()
        await self._write(line)
        await self._deliver()

    async def interrupt(self) -> None:
        if not self._is_working:
            return
        self._translator.interrupt()
        # A message that waits would begin a new turn after the interrupt.
        waiting = self._translator.waiting_messages()
        try:
            for uuid in waiting:
                cancelled = await self._control.ask("cancel_async_message", _CALL_TIMEOUT, message_uuid=uuid)
                if cancelled.get("cancelled") is True:
                    self._drop_message(uuid)
            await self._control.ask("interrupt", _CALL_TIMEOUT)
            for task_id in [*self._translator.running_agents]:
                with suppress(BadRequest):
                    await self._control.ask("stop_task", _CALL_TIMEOUT, task_id=task_id)
        except FarsteerError:
            if self._is_working and self._process.running:
                raise

    def _drop_message(self, uuid: str) -> None:
        self._translator.drop_message(uuid)
        text = "The turn was interrupted before the model saw a message sent into it."
        self._output.add_event(
            Notice(text=text, level="warning", code="steer_lost", meta={"messageIds": [uuid]})
        )

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        fields = {"user_message_id": message_id}
        try:
            preview = await self._control.ask("rewind_files", _RESTORE_TIMEOUT, **fields, dry_run=True)
            result = await self._control.ask("rewind_files", _RESTORE_TIMEOUT, **fields)
        except BadRequest as error:
            return FilesRestored(status=FileRestore.FAILED, reason=error.message)
        if result.get("canRewind") is not True:
            reason = str(result.get("error") or "Claude Code gives no reason")
            return FilesRestored(status=FileRestore.FAILED, reason=reason)
        changed = preview.get("filesChanged")
        listed = cast("list[Any]", changed) if isinstance(changed, list) else []
        files = tuple(str(path) for path in listed[:_MAX_FILES])
        skipped = result.get("skippedLinks")
        if isinstance(skipped, int) and skipped:
            reason = f"{skipped} symbolic links were not restored"
            return FilesRestored(status=FileRestore.PARTIAL, restored=files, reason=reason)
        return FilesRestored(status=FileRestore.FULL, restored=files)

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        before = self._settings.mode
        self._settings.set_mode(mode)
        try:
            await self._control.ask("set_permission_mode", _CALL_TIMEOUT, mode=native_mode(mode))
        except BaseException:
            self._settings.set_mode(before)
            self._settings.forget_reports()
            raise

    async def set_model(self, model: str) -> None:
        await self._control.ask("set_model", _CALL_TIMEOUT, model=model)
        self._settings.model = model

    async def set_effort(self, effort: ReasoningEffort) -> None:
        settings = {"effortLevel": effort.value}
        await self._control.ask("apply_flag_settings", _CALL_TIMEOUT, settings=settings)
        self._settings.effort = effort

    # -- output

    def _handle_line(self, line: bytes) -> None:
        self._handle_message(protocol.decode_line(line))

    def _handle_message(self, message: protocol.AnyLine) -> None:
        match message:
            case protocol.ControlResponse():
                self._control.handle(message.response)
            case protocol.ControlRequest():
                self._approvals.handle_request(message)
            case protocol.ControlCancel():
                self._approvals.handle_cancel(message.request_id)
            case protocol.UnknownLine():
                self._translator.handle_unknown(message)
            case protocol.InvalidLine():
                text = f"Claude Code wrote an invalid line: {message.text}"
                self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)
            case protocol.Result():
                if self._ready:
                    self._translator.handle(message)
                    if self._output.turn_id is None:
                        self._approvals.clear()
                else:
                    self._start_result = message
            case _:
                self._translator.handle(message)

    def _handle_end(self, reason: TurnEndReason, error: str | None, died: AgentError) -> None:
        self._approvals.clear()
        if not self._confirming:
            self._translator.end_turn(reason, error)
        self._control.close(died)
        for taken in self._taken.values():
            if not taken.done():
                taken.set_exception(died)


def _objects(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [cast("dict[str, Any]", one) for one in cast("list[Any]", value) if isinstance(one, dict)]
