"""The tool calls of a turn: each is announced once, starts once and has one result, however often Droid says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from farsteer.agents.droid.notes import Progress, ToolUse
from farsteer.agents.droid.tools import (
    TODO,
    kind_of,
    locations_of,
    outcome_of,
    plan_of,
    proposal_of,
    text_of,
    title_of,
)
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import DeltaKind, Other, ToolCall, ToolCallUpdate, ToolStatus

_REMEMBERED = 4096
"""Tool calls of one turn; more would let a flood eat memory."""


@dataclass(slots=True)
class _Tool:
    use: ToolUse
    announced: bool = False
    started: bool = False
    settled: bool = False
    output: str = ""


class Toolbox:
    def __init__(self, turns: TurnOutput) -> None:
        self._turns = turns
        self._tools: dict[str, _Tool] = {}
        self._open: set[str] = set()

    @property
    def working(self) -> bool:
        """A tool that was announced has no result yet."""
        return bool(self._open)

    def begin(self) -> None:
        self._tools.clear()
        self._open.clear()

    def hint(self, use: ToolUse) -> None:
        """The model is writing a call; it is not complete before its message is."""
        tool = self._tools.get(use.id)
        if tool is None:
            self._keep(use)
        elif not tool.announced and use.input:
            tool.use = use

    def announce(self, use: ToolUse) -> None:
        self.hint(use)
        self._announced(use.id, use.name)

    def start(self, call: str, name: str = "") -> None:
        tool = self._announced(call, name)
        if not tool.started and not tool.settled:
            tool.started = True
            self._turns.add_event(ToolCallUpdate(tool_call_id=call, status=ToolStatus.IN_PROGRESS))

    def progress(self, note: Progress) -> None:
        self.start(note.tool_use_id, note.tool_name)
        tool, update = self._tools[note.tool_use_id], note.update
        if tool.settled:
            return
        if update.get("type") != "status":
            data = {"toolUseId": note.tool_use_id, "toolName": note.tool_name, "update": update}
            self._turns.add_event(Other(native_kind="tool_progress_update", data=data))
            return
        output = update.get("fullOutput")
        if isinstance(output, str):
            self._output(note.tool_use_id, tool, output)
        elif isinstance(text := update.get("text"), str) and text:
            self._output(note.tool_use_id, tool, f"{tool.output}{text}\n")

    def result(
        self, call: str, content: Any, is_error: bool | None, meta: dict[str, Any] | None = None
    ) -> None:
        """The first one counts: after an interrupt there is a second, with another text."""
        tool = self._announced(call, "")
        if tool.settled:
            return
        tool.settled = True
        self._open.discard(call)
        # CLIs before 0.99 mark a failure by its text only.
        failed = text_of(content).startswith("Error:") if is_error is None else is_error
        if tool.use.name == TODO and not failed and (plan := plan_of(tool.use)) is not None:
            self._turns.add_event(plan)
        self._turns.add_event(
            ToolCallUpdate(
                tool_call_id=call, status=ToolStatus.FAILED if failed else ToolStatus.COMPLETED,
                content=outcome_of(tool.use, content, failed=failed), meta=meta,
            )
        )  # fmt: skip

    def _announced(self, call: str, name: str) -> _Tool:
        tool = self._tools.get(call)
        if tool is None:
            tool = self._keep(ToolUse(id=call, name=name or "tool"))
        if not tool.announced:
            tool.announced = True
            self._open.add(call)
            use = tool.use
            self._turns.add_event(
                ToolCall(
                    tool_call_id=use.id, title=title_of(use), tool_kind=kind_of(use.name), status=ToolStatus.PENDING,
                    tool=use.name, input=use.input, locations=locations_of(use), content=proposal_of(use),
                )
            )  # fmt: skip
        return tool

    def _keep(self, use: ToolUse) -> _Tool:
        if len(self._tools) >= _REMEMBERED:
            oldest = next(iter(self._tools))
            del self._tools[oldest]
            self._open.discard(oldest)
        tool = self._tools[use.id] = _Tool(use)
        return tool

    def _output(self, call: str, tool: _Tool, output: str) -> None:
        """Droid repeats the whole output; only what is new goes out."""
        new = output.removeprefix(tool.output) if output.startswith(tool.output) else output
        if new is output and tool.output:
            self._turns.drop_draft(DeltaKind.TOOL_OUTPUT, call)
        tool.output = output
        self._turns.add_delta(DeltaKind.TOOL_OUTPUT, call, new)
