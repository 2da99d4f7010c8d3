"""One turn of the simulator: messages, tools, approvals and its end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from farsteer.core.clock import now_ms
from farsteer.core.droid import (
    ASK_USER,
    AUTONOMY_LEVELS,
    CANCEL,
    MODEL_ONLY,
    PROCEED_ALWAYS,
    PROCEED_ONCE,
    REQUEST_PERMISSION,
    ToolName,
    WorkingState,
)
from farsteer.core.ids import new_id
from farsteer.faces.droid import protocol
from farsteer.faces.droid.params import PermissionAnswer, QuestionnaireAnswer
from farsteer.faces.droid.protocol import AnyContent, Response, TextContent, ThinkingContent, ToolUse
from farsteer.faces.droid.tools import confirmation
from tests.support.droid_simulator import store
from tests.support.droid_simulator.output import SessionOutput

CANCELLED = "Error: Tool execution cancelled by user"
_READ_ONLY_COMMAND = re.compile(r"\s*(?:ls|pwd|env|cat|echo)\b[^>]*")
_OPTIONS = [
    {"label": "Yes, allow", "value": PROCEED_ONCE},
    {"label": "Yes, and always allow medium impact commands", "value": PROCEED_ALWAYS},
    {"label": "No, cancel", "value": CANCEL},
]

T = TypeVar("T")

Act = Callable[[ToolUse], Awaitable[tuple[str, bool]]]
"""Runs a tool; returns its result and whether it failed."""


class TurnOver(Exception):
    """The turn ends here, without another call of the model."""


class Turn:
    def __init__(
        self, output: SessionOutput, text: str, request_id: str, message_id: str | None = None
    ) -> None:
        self.output = output
        self.text = text
        self.request_id = request_id
        self._message_id = message_id
        self.reason = "completed"
        self.ignores_interrupts = False
        self.is_last_command = False
        """No command follows the current one."""
        self.end_sent = False
        self.id = ""
        """Id of the message that began the turn."""
        self._used_before = output.current.settings.used
        self._tool_count = 0
        self._streaming_id: str | None = None
        self._streamed = ""
        self._running_tool: ToolUse | None = None
        self._process: asyncio.subprocess.Process | None = None
        self.waiting: dict[str, asyncio.Future[Response]] = {}
        """Open requests by id."""
        self.pending: dict[str, dict[str, Any]] = {}
        """The same requests as `load_session` lists them."""

    async def run(self, perform: Callable[[Turn], Awaitable[None]]) -> None:
        output = self.output
        await output.change_state(WorkingState.STREAMING)
        self.id = await output.user_message(self.text, self.request_id, self._message_id)
        try:
            await output.change_state(WorkingState.THINKING)
            await output.count_model_call()
            await perform(self)
        except TurnOver:
            pass
        except asyncio.CancelledError:
            self.reason = "cancelled"
            await self._interrupted()
        await self._end()

    async def _end(self) -> None:
        if self.end_sent:
            return
        await self.output.turn_completed(self.reason, self.id, self._used_before)
        await self.output.change_state(WorkingState.IDLE)
        await self.output.usage_after_turn()

    async def end_now(self, reason: str = "completed") -> None:
        """Report the end of the turn, whatever follows."""
        self.reason = reason
        await self._end()
        self.end_sent = True

    async def say(self, text: str, *, pace: float = 0.0, thought: str = "", last: bool = False) -> None:
        """Stream a message and then send it whole. `last`: the current command says nothing after it."""
        output, message_id = self.output, new_id()
        blocks: list[AnyContent] = []
        if thought:
            await output.change_state(WorkingState.THINKING)
            for word in _words(thought):
                await output.delta(message_id, 0, word, thought=True)
            await output.complete(message_id, 0, thought=True)
            blocks.append(ThinkingContent(thinking=thought))
        await output.change_state(WorkingState.STREAMING)
        self._streaming_id, self._streamed = message_id, ""
        for word in _words(text):
            await output.delta(message_id, len(blocks), word)
            self._streamed += word
            if pace:
                await asyncio.sleep(pace)
        await output.complete(message_id, len(blocks))
        if last and self.is_last_command and "completed-early" in output.faults:
            await self.end_now()
        elif (
            last and self.is_last_command and (output.profile.idle_early or "premature-idle" in output.faults)
        ):
            await output.change_state(WorkingState.IDLE)
        self._streaming_id = None
        await output.add_message(
            output.build_message("assistant", *blocks, TextContent(text=text), id=message_id)
        )

    # -- tools

    def new_tool_use(self, name: str, given: dict[str, Any]) -> ToolUse:
        self._tool_count += 1
        use_id = f"call_{len(self.output.current.messages)}_{self._tool_count}"
        return ToolUse(id=use_id, name=name, input=given)

    async def run_tool(self, name: str, given: dict[str, Any], act: Act) -> bool:
        """Announce a tool, ask for permission if the autonomy level requires it, run it and send its result."""
        use = self.new_tool_use(name, given)
        await self.announce_tool(use)
        settings = self.output.current.settings
        if settings.spec and name in (ToolName.CREATE, ToolName.EDIT):
            await self.finish_tool(use, "Error: Error: Tool cancelled: Spec mode is active", failed=True)
            return False
        if not _is_allowed(name, given, settings.level):
            selected, _ = await self.request_permission(use)
            if selected == PROCEED_ALWAYS:
                kind, details = confirmation(use)
                settings.level = str(details["impactLevel"]) if kind in ("exec", "mcp_tool") else "low"
                store.save(self.output.current)
                await self.output.notify_settings()
        await self.output.tool_phase(use, "executing")
        text, failed = await act(use)
        await self.finish_tool(use, text, failed=failed)
        return not failed

    async def announce_tool(self, use: ToolUse) -> None:
        output = self.output
        await output.change_state(WorkingState.STREAMING)
        for number in range(output.profile.tool_calls_before_message):
            announced = use if number else ToolUse(id=use.id, name=use.name)
            await output.notify(protocol.ToolCall(tool_use=announced))
        await output.add_message(output.build_message("assistant", use))
        await output.change_state(WorkingState.EXECUTING_TOOL)
        await output.tool_phase(use, "queued")
        self._running_tool = use

    async def finish_tool(self, use: ToolUse, text: str, *, failed: bool) -> None:
        self._running_tool = None
        await self.output.tool_result(use, text, failed=failed)
        await self.output.count_model_call()
        await self.output.change_state(WorkingState.STREAMING)

    async def run_shell(self, use: ToolUse) -> tuple[str, bool]:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_shell(
                use.input["command"], cwd=self.output.current.directory, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, process_group=0,
            )
        )  # fmt: skip
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._process = await starting  # so that it can be killed
            raise
        assert process.stdout is not None
        self._process, output = process, ""
        while chunk := await process.stdout.read(65536):
            output += chunk.decode(errors="replace")
            update = {"type": "status", "text": "", "timestamp": now_ms(), "fullOutput": output}
            progress = protocol.ToolProgress(tool_use_id=use.id, tool_name=use.name, update=update)
            await self.output.notify(progress)
        code = await process.wait()
        self._process = None
        end = f"\n\n[Process exited with code {code}]"
        if code:
            return f"Error: Command failed (exit code: {code})\n{output}{end}", True
        return f"{output.rstrip() or 'Command completed successfully'}{end}", False

    def kill_command(self) -> None:
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    # -- approvals

    async def request_permission(
        self, use: ToolUse, kind: str | None = None, details: dict[str, Any] | None = None,
        options: list[dict[str, str]] | None = None, more: Sequence[ToolUse] = (),
    ) -> tuple[str, PermissionAnswer | None]:  # fmt: skip
        """Return the selected option and the whole answer. A denied tool, unless it is a plan, ends the turn."""
        default_kind, default_details = confirmation(use)
        asked = {
            "toolUse": use, "confirmationType": kind or default_kind, "details": details or default_details,
        }  # fmt: skip
        others = [(one, *confirmation(one)) for one in more]
        uses = [
            asked,
            *({"toolUse": one, "confirmationType": what, "details": why} for one, what, why in others),
        ]
        params = {"toolUses": uses, "options": options or _OPTIONS}
        response, request_id = await self._request(REQUEST_PERMISSION, params)
        answer = _decode(response, PermissionAnswer)
        selected = answer.selected_option if answer is not None else CANCEL
        completes_turns = self.output.profile.completes_turns
        after = WorkingState.EXECUTING_TOOL if completes_turns else WorkingState.STREAMING
        await self.output.change_state(after)
        use_ids = [] if selected == CANCEL else [use.id]
        await self.output.notify(
            protocol.PermissionResolved(request_id=request_id, tool_use_ids=use_ids, selected_option=selected)
        )
        for _ in range(self.output.profile.tool_calls_after_approval):
            await self.output.notify(protocol.ToolCall(tool_use=use))
        if selected == CANCEL and kind is None:
            self._running_tool = None
            await self.output.tool_result(use, CANCELLED, failed=True)
            raise TurnOver
        return selected, answer

    async def ask_user(self, *questions: dict[str, Any]) -> str:
        """Return the answers, separated by commas."""
        given = {"questionnaire": "\n".join(one["question"] for one in questions)}
        use = self.new_tool_use(ToolName.ASK_USER, given)
        await self.announce_tool(use)
        params = {"toolCallId": use.id, "questions": [*questions]}
        response, _ = await self._request(ASK_USER, params)
        while (
            answer := _decode(response, QuestionnaireAnswer)
        ) is None and self.output.profile.repeats_question:
            response, _ = await self._request(ASK_USER, params)
        await self.output.change_state(WorkingState.STREAMING)
        if answer is not None and answer.cancelled:
            self._running_tool = None
            await self.output.tool_result(use, CANCELLED, failed=True)
            raise TurnOver
        if answer is None or len(answer.answers) < len(questions):
            await self.finish_tool(use, "Error: AskUser failed", failed=True)
            return ""
        text = "\n\n".join(
            f"{one.index}. [question] {one.question}\n[answer] {one.answer}" for one in answer.answers
        )
        await self.finish_tool(use, text, failed=False)
        return ", ".join(one.answer for one in answer.answers)

    async def _request(self, method: str, params: dict[str, Any]) -> tuple[Response, str]:
        """Send a request and return its response and its id."""
        request_id = new_id()
        answered = self.waiting[request_id] = asyncio.get_running_loop().create_future()
        self.pending[request_id] = {"requestId": request_id, **params}
        await self.output.change_state(WorkingState.WAITING_FOR_CONFIRMATION)
        await self.output.write(self.output.encoder.request(request_id, method, params))
        response = await answered
        del self.waiting[request_id], self.pending[request_id]
        return response, request_id

    async def _interrupted(self) -> None:
        """As with Droid, a partial message stays in the history, and a running tool gets two results."""
        output = self.output
        self.kill_command()
        for request_id in self.waiting:
            await output.notify(
                protocol.PermissionResolved(request_id=request_id, tool_use_ids=[], selected_option=CANCEL)
            )
        if self._running_tool is not None:
            await output.tool_result(self._running_tool, CANCELLED, failed=True)
            second = "Error: Tool execution cancelled: Batch cancelled"
            await output.tool_result(self._running_tool, second, failed=True, repeated=True)
        elif self._streaming_id is not None:
            partial = TextContent(text=self._streamed)
            store.add(output.current, output.build_message("assistant", partial, id=self._streaming_id))
        for text in ("Request cancelled by user", "Request interrupted by user"):
            message = output.build_message("system", TextContent(text=text), visibility=MODEL_ONLY)
            await output.add_message(message)


def _is_allowed(name: str, given: dict[str, Any], level: str) -> bool:
    rank = AUTONOMY_LEVELS.index(level)
    if name != ToolName.EXECUTE:
        return rank >= AUTONOMY_LEVELS.index("low")
    return given["riskLevel"] == "low" or rank >= AUTONOMY_LEVELS.index(given["riskLevel"])


def risk_level(command: str) -> str:
    if re.search(r"\brm\b|\bgit push\b", command):
        return "high"
    return "low" if _READ_ONLY_COMMAND.fullmatch(command) else "medium"


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def _decode(response: Response, kind: type[T]) -> T | None:
    """Return the result of a response, None if it is an error or malformed."""
    try:
        return None if response.error is not None else msgspec.json.decode(response.result, type=kind)
    except msgspec.DecodeError:
        return None
