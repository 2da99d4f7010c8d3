"""Droid's tools as we show them: what kind each is, what it is about, and what its result means."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

from farsteer.agents.droid.notes import ToolUse
from farsteer.core.events import DiffBlock, Location, Plan, PlanEntry, TextBlock, ToolContent
from farsteer.core.modes import ToolKind

TODO = "TodoWrite"

_KINDS = {
    "Read": ToolKind.READ,
    "LS": ToolKind.READ,
    "Execute": ToolKind.EXECUTE,
    "Edit": ToolKind.EDIT,
    "MultiEdit": ToolKind.EDIT,
    "Create": ToolKind.EDIT,
    "ApplyPatch": ToolKind.EDIT,
    "Grep": ToolKind.SEARCH,
    "Glob": ToolKind.SEARCH,
    "ToolSearch": ToolKind.SEARCH,
    "WebSearch": ToolKind.FETCH,
    "FetchUrl": ToolKind.FETCH,
    TODO: ToolKind.THINK,
    "ExitSpecMode": ToolKind.SWITCH_MODE,
}
_PATHS = ("file_path", "directory_path", "folder", "path")
_SUBJECTS = ("pattern", "patterns", "query", "url", "description", "skill", "title")
_TITLE_CHARS = 120
_TODO_LINE = re.compile(r"\s*(?:\d+[.)]|[-*])?\s*\[(?P<status>[^\]]*)\]\s*(?P<text>.+)")
_STATUSES = {"x": "completed", "completed": "completed", "done": "completed", "in_progress": "in_progress"}


def kind_of(name: str) -> ToolKind:
    return _KINDS.get(name, ToolKind.OTHER)


def title_of(use: ToolUse) -> str:
    """One line that says what the tool is about to do."""
    given = use.input
    server, separator, tool = use.name.partition("___")
    name = f"{server}: {tool}" if separator else use.name
    if use.name == "Execute":
        # Its summary is the model's word for it: who is asked to allow it should see what it is.
        return _line(given.get("command") or given.get("summary")) or name
    path = _path(given)
    subject = (
        PurePosixPath(path).name
        if path
        else next((_line(given.get(key)) for key in _SUBJECTS if given.get(key)), "")
    )
    return f"{name} {subject}".strip()


def locations_of(use: ToolUse) -> tuple[Location, ...]:
    path = _path(use.input)
    return (Location(path=path),) if path else ()


def proposal_of(use: ToolUse) -> tuple[ToolContent, ...]:
    """What a file tool is about to change, as far as its input says."""
    path, given = _path(use.input), use.input
    if path and use.name == "Create" and isinstance(given.get("content"), str):
        return (DiffBlock(path=path, new_text=given["content"]),)
    old, new = given.get("old_str"), given.get("new_str")
    if path and use.name == "Edit" and isinstance(old, str) and isinstance(new, str):
        return (DiffBlock(path=path, old_text=old, new_text=new),)
    return ()


def outcome_of(use: ToolUse | None, content: Any, *, failed: bool) -> tuple[ToolContent, ...]:
    """What a result shows: the lines that changed where Droid names them, else its text."""
    text = text_of(content)
    if use is not None and not failed and kind_of(use.name) is ToolKind.EDIT:
        diff = _diff(text)
        if diff is not None:
            return (diff,)
        if use.name == "Create":
            return proposal_of(use)
    if use is not None and not failed and use.name == "ExitSpecMode":
        text = _message(text) or text
    return (TextBlock(text=text),) if text else ()


def plan_of(use: ToolUse) -> Plan | None:
    """The list a TodoWrite sets: a text with a line for each, or the entries themselves."""
    todos = use.input.get("todos")
    if isinstance(todos, str):
        found = [_TODO_LINE.fullmatch(line) for line in todos.splitlines()]
        entries = [PlanEntry(content=m["text"].strip(), status=_status(m["status"])) for m in found if m]
    elif isinstance(todos, list):
        entries = [
            PlanEntry(
                content=str(todo.get("content", "")), status=_status(str(todo.get("status", ""))),
                priority=str(todo.get("priority") or "medium"),
            )
            for todo in cast("list[Any]", todos)
            if isinstance(todo, dict)
        ]  # fmt: skip
    else:
        return None
    return Plan(entries=tuple(entries))


def text_of(content: Any) -> str:
    """The text of a result, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        blocks = cast("list[Any]", content)
        return "\n".join(
            str(block["text"]) for block in blocks if isinstance(block, dict) and "text" in block
        )
    return "" if content is None else msgspec.json.encode(content).decode()


class _ChangedLine(msgspec.Struct):
    type: str
    content: str = ""


class _Changed(msgspec.Struct, rename={"diff_lines": "diffLines"}):
    file_path: str
    diff_lines: list[_ChangedLine]


def _diff(text: str) -> DiffBlock | None:
    try:
        changed = msgspec.json.decode(text, type=_Changed)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    old = [line.content for line in changed.diff_lines if line.type != "added"]
    new = [line.content for line in changed.diff_lines if line.type != "removed"]
    return DiffBlock(path=changed.file_path, old_text="\n".join(old), new_text="\n".join(new))


class _Told(msgspec.Struct):
    message: str


def _message(text: str) -> str | None:
    try:
        return msgspec.json.decode(text, type=_Told).message
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _path(given: dict[str, Any]) -> str | None:
    return next((given[key] for key in _PATHS if isinstance(given.get(key), str) and given[key]), None)


def _status(word: str) -> str:
    return _STATUSES.get(word.strip().lower().replace("-", "_").replace(" ", "_"), "pending")


def _line(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    line = " ".join(text.split())
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"
