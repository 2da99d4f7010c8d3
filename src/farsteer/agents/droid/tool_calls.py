"""Droid's tool calls as our events: their kind, title, proposed changes and results.

Droid announces a tool call several times and may send two results. `ToolCalls` emits each call, its start and its
result once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

from farsteer.agents.droid.protocol import ToolProgress, ToolUse
from farsteer.agents.turns import TurnOutput
from farsteer.core.droid import MCP_SEPARATOR, TOOL_KINDS, ToolName
from farsteer.core.events import (
    DeltaKind,
    DiffBlock,
    Location,
    Other,
    Plan,
    PlanEntry,
    TextBlock,
    ToolCall,
    ToolCallUpdate,
    ToolContent,
    ToolStatus,
)
from farsteer.core.modes import ToolKind

_MAX_CALLS = 4096
"""How many tool calls of one turn are remembered. Bounds the memory of a long turn."""
_PATH_KEYS = ("file_path", "directory_path", "folder", "path")
_SUBJECT_KEYS = ("pattern", "patterns", "query", "url", "description", "skill", "title")
_TITLE_CHARS = 120
_BROKEN_OFF = ("Error: Tool execution cancelled", "Error: Command terminated by signal")
"""How the result of a tool begins that did not come to its end. It does not have what the tool had written."""
_TODO_LINE = re.compile(r"\s*(?:\d+[.)]|[-*])?\s*\[(?P<status>[^\]]*)\]\s*(?P<text>.+)")
_TODO_STATUSES = {
    "x": "completed",
    "completed": "completed",
    "done": "completed",
    "in_progress": "in_progress",
}


@dataclass(slots=True)
class _Call:
    use: ToolUse
    announced: bool = False
    started: bool = False
    finished: bool = False
    output: str = ""


class ToolCalls:
    """The tool calls of the current turn."""

    def __init__(self, output: TurnOutput) -> None:
        self._output = output
        self._calls: dict[str, _Call] = {}
        self._unfinished: set[str] = set()

    @property
    def any_unfinished(self) -> bool:
        """Whether a tool call was announced and has no result yet."""
        return bool(self._unfinished)

    def clear(self) -> None:
        self._calls.clear()
        self._unfinished.clear()

    def preview(self, use: ToolUse) -> None:
        """Remember a call that the model is still writing; its input is complete only with its message."""
        call = self._calls.get(use.id)
        if call is None:
            self._remember(use)
        elif not call.announced and use.input:
            call.use = use

    def announce(self, use: ToolUse) -> None:
        self.preview(use)
        self._announce(use.id, use.name)

    def start(self, call_id: str, name: str = "") -> None:
        call = self._announce(call_id, name)
        if not call.started and not call.finished:
            call.started = True
            self._output.add_event(ToolCallUpdate(tool_call_id=call_id, status=ToolStatus.IN_PROGRESS))

    def update(self, progress: ToolProgress) -> None:
        self.start(progress.tool_use_id, progress.tool_name)
        call, update = self._calls[progress.tool_use_id], progress.update
        if call.finished:
            return
        if update.get("type") != "status":
            data = {"toolUseId": progress.tool_use_id, "toolName": progress.tool_name, "update": update}
            self._output.add_event(Other(native_kind="tool_progress_update", data=data))
            return
        output = update.get("fullOutput")
        if isinstance(output, str):
            self._stream_output(progress.tool_use_id, call, output)
        elif isinstance(text := update.get("text"), str) and text:
            self._stream_output(progress.tool_use_id, call, f"{call.output}{text}\n")

    def finish(
        self, call_id: str, content: Any, is_error: bool | None, meta: dict[str, Any] | None = None
    ) -> None:
        """Emit the result of a call. The first one counts: after an interrupt Droid sends a second one."""
        call = self._announce(call_id, "")
        if call.finished:
            return
        call.finished = True
        self._unfinished.discard(call_id)
        # CLIs before 0.99 mark a failure only by its text.
        failed = result_text(content).startswith("Error:") if is_error is None else is_error
        if call.use.name == ToolName.TODO_WRITE and not failed and (plan := todo_plan(call.use)) is not None:
            self._output.add_event(plan)
        self._output.add_event(
            ToolCallUpdate(
                tool_call_id=call_id, status=ToolStatus.FAILED if failed else ToolStatus.COMPLETED,
                content=result_content(call.use, content, failed=failed), meta=meta,
                partial=failed and result_text(content).startswith(_BROKEN_OFF),
            )
        )  # fmt: skip

    def _announce(self, call_id: str, name: str) -> _Call:
        call = self._calls.get(call_id)
        if call is None:
            call = self._remember(ToolUse(id=call_id, name=name or "tool"))
        if not call.announced:
            call.announced = True
            self._unfinished.add(call_id)
            self._output.add_event(tool_call_event(call.use))
        return call

    def _remember(self, use: ToolUse) -> _Call:
        if len(self._calls) >= _MAX_CALLS:
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            self._unfinished.discard(oldest)
        call = self._calls[use.id] = _Call(use)
        return call

    def _stream_output(self, call_id: str, call: _Call, output: str) -> None:
        """Emit what is new in the output, which Droid repeats as a whole."""
        new = output.removeprefix(call.output) if output.startswith(call.output) else output
        if new is output and call.output:
            self._output.drop_draft(DeltaKind.TOOL_OUTPUT, call_id)
        call.output = output
        self._output.add_delta(DeltaKind.TOOL_OUTPUT, call_id, new)


# -- tool uses


def tool_call_event(use: ToolUse) -> ToolCall:
    return ToolCall(
        tool_call_id=use.id, title=tool_title(use), tool_kind=tool_kind(use.name), status=ToolStatus.PENDING,
        tool=use.name, input=use.input, locations=_locations(use), content=_proposed_changes(use),
    )  # fmt: skip


def tool_kind(name: str) -> ToolKind:
    return TOOL_KINDS.get(name, ToolKind.OTHER)


def tool_title(use: ToolUse) -> str:
    """Return one line that says what the tool is about to do."""
    given = use.input
    if use.name == ToolName.EXECUTE:
        # The command itself, not the model's summary of it: a person may have to approve it.
        command = _one_line(given.get("command") or given.get("summary"))
        return command or use.name
    server, separator, tool = use.name.partition(MCP_SEPARATOR)
    name = f"{server}: {tool}" if separator else use.name
    path = _path(given)
    if path:
        subject = PurePosixPath(path).name
    else:
        subject = next((_one_line(given.get(key)) for key in _SUBJECT_KEYS if given.get(key)), "")
    return f"{name} {subject}".strip()


def _locations(use: ToolUse) -> tuple[Location, ...]:
    path = _path(use.input)
    return (Location(path=path),) if path else ()


def _proposed_changes(use: ToolUse) -> tuple[ToolContent, ...]:
    """Return what a file tool is about to change, as far as its input tells."""
    path, given = _path(use.input), use.input
    if path and use.name == ToolName.CREATE and isinstance(given.get("content"), str):
        return (DiffBlock(path=path, new_text=given["content"]),)
    old, new = given.get("old_str"), given.get("new_str")
    if path and use.name == ToolName.EDIT and isinstance(old, str) and isinstance(new, str):
        return (DiffBlock(path=path, old_text=old, new_text=new),)
    return ()


def _path(given: dict[str, Any]) -> str | None:
    return next((given[key] for key in _PATH_KEYS if isinstance(given.get(key), str) and given[key]), None)


def _one_line(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    line = " ".join(text.split())
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"


def todo_plan(use: ToolUse) -> Plan | None:
    """Return the list that a TodoWrite sets. Its input is a text with a line for each entry, or a list of entries."""
    todos = use.input.get("todos")
    if isinstance(todos, str):
        found = [_TODO_LINE.fullmatch(line) for line in todos.splitlines()]
        entries = [PlanEntry(content=m["text"].strip(), status=_todo_status(m["status"])) for m in found if m]
    elif isinstance(todos, list):
        entries = [
            PlanEntry(
                content=str(todo.get("content", "")), status=_todo_status(str(todo.get("status", ""))),
                priority=str(todo.get("priority") or "medium"),
            )
            for todo in cast("list[Any]", todos)
            if isinstance(todo, dict)
        ]  # fmt: skip
    else:
        return None
    return Plan(entries=tuple(entries))


def _todo_status(name: str) -> str:
    return _TODO_STATUSES.get(name.strip().lower().replace("-", "_").replace(" ", "_"), "pending")


# -- results


def result_content(use: ToolUse | None, content: Any, *, failed: bool) -> tuple[ToolContent, ...]:
    """Return what a result shows: the changed lines if Droid names them, else its text."""
    text = result_text(content)
    if use is not None and not failed and tool_kind(use.name) is ToolKind.EDIT:
        diff = _diff(text)
        if diff is not None:
            return (diff,)
        if use.name == ToolName.CREATE:
            return _proposed_changes(use)
    if use is not None and not failed and use.name == ToolName.EXIT_SPEC_MODE:
        text = _message(text) or text
    return (TextBlock(text=text),) if text else ()


def result_text(content: Any) -> str:
    """Return the text of a result, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        blocks = cast("list[Any]", content)
        return "\n".join(
            str(block["text"]) for block in blocks if isinstance(block, dict) and "text" in block
        )
    return "" if content is None else msgspec.json.encode(content).decode()


class _DiffLine(msgspec.Struct):
    type: str
    content: str = ""


class _EditResult(msgspec.Struct, rename={"diff_lines": "diffLines"}):
    file_path: str
    diff_lines: list[_DiffLine]


def _diff(text: str) -> DiffBlock | None:
    try:
        result = msgspec.json.decode(text, type=_EditResult)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    old = [line.content for line in result.diff_lines if line.type != "added"]
    new = [line.content for line in result.diff_lines if line.type != "removed"]
    return DiffBlock(path=result.file_path, old_text="\n".join(old), new_text="\n".join(new))


class _PlanResult(msgspec.Struct):
    message: str


def _message(text: str) -> str | None:
    try:
        return msgspec.json.decode(text, type=_PlanResult).message
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
