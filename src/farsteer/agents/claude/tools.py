"""Claude Code's tools as our tool calls: kind, title, paths, proposed changes and results."""

from __future__ import annotations

import os
from typing import Any, cast

from farsteer.agents.claude.protocol import Block
from farsteer.core.events import (
    DiffBlock,
    Location,
    TextBlock,
    ToolCall,
    ToolCallUpdate,
    ToolContent,
    ToolStatus,
)
from farsteer.core.modes import ToolKind
from farsteer.core.text import clean_line

ASK_QUESTION = "AskUserQuestion"
EXIT_PLAN = "ExitPlanMode"
INTERACTIVE = frozenset({ASK_QUESTION, EXIT_PLAN})
"""Tools that are a question to a person."""
SUB_AGENT_TOOLS = frozenset({"Task", "Agent"})

_KINDS = {
    "Read": ToolKind.READ, "NotebookRead": ToolKind.READ, "ListMcpResourcesTool": ToolKind.READ,
    "ReadMcpResourceTool": ToolKind.READ, "TaskOutput": ToolKind.READ, "BashOutput": ToolKind.READ,
    "Glob": ToolKind.SEARCH, "Grep": ToolKind.SEARCH, "LS": ToolKind.SEARCH, "ToolSearch": ToolKind.SEARCH,
    "ListAgents": ToolKind.SEARCH, "LSP": ToolKind.SEARCH,
    "Write": ToolKind.EDIT, "Edit": ToolKind.EDIT, "MultiEdit": ToolKind.EDIT, "NotebookEdit": ToolKind.EDIT,
    "Bash": ToolKind.EXECUTE, "PowerShell": ToolKind.EXECUTE, "Monitor": ToolKind.EXECUTE,
    "WebFetch": ToolKind.FETCH, "WebSearch": ToolKind.FETCH,
    "Task": ToolKind.THINK, "Agent": ToolKind.THINK, "TodoWrite": ToolKind.THINK, "TaskCreate": ToolKind.THINK,
    "TaskUpdate": ToolKind.THINK, "TaskList": ToolKind.THINK, "TaskGet": ToolKind.THINK, "Skill": ToolKind.THINK,
    ASK_QUESTION: ToolKind.THINK,
    EXIT_PLAN: ToolKind.SWITCH_MODE, "EnterPlanMode": ToolKind.SWITCH_MODE,
}  # fmt: skip
"""What a sub-agent does is judged by the tools that it uses, so that starting one is harmless."""
_PATH_KEYS = ("file_path", "notebook_path", "path")
_SUBJECT_KEYS = ("description", "pattern", "query", "url", "skill", "subject", "prompt")
_TITLE_CHARS = 200
_DIFF_CHARS = 256 * 1024
"""A longer file is left out of a diff."""


def tool_kind(name: str) -> ToolKind:
    return _KINDS.get(name, ToolKind.OTHER)


def tool_input(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def tool_title(name: str, given: dict[str, Any]) -> str:
    command = given.get("command")
    if tool_kind(name) is ToolKind.EXECUTE and isinstance(command, str):
        return clean_line(command, _TITLE_CHARS)
    for key in (*_PATH_KEYS, *_SUBJECT_KEYS):
        subject = given.get(key)
        if isinstance(subject, str) and subject:
            return clean_line(f"{name} {subject}", _TITLE_CHARS)
    return clean_line(name, _TITLE_CHARS)


def tool_path(given: dict[str, Any]) -> str | None:
    return next((path for key in _PATH_KEYS if isinstance(path := given.get(key), str) and path), None)


def tool_call(use: Block, parent: str | None, directory: str) -> ToolCall:
    given = tool_input(use.input)
    return ToolCall(
        tool_call_id=use.id, title=tool_title(use.name, given), tool_kind=tool_kind(use.name),
        status=ToolStatus.IN_PROGRESS, tool=use.name, input=given, locations=locations(given, directory),
        content=proposed_content(use.name, given, directory), parent_tool_call_id=parent,
    )  # fmt: skip


def locations(given: dict[str, Any], directory: str) -> tuple[Location, ...]:
    path = tool_path(given)
    line = given.get("offset")
    return (
        ()
        if path is None
        else (Location(_absolute(path, directory), line if isinstance(line, int) else None),)
    )


def proposed_content(name: str, given: dict[str, Any], directory: str) -> tuple[ToolContent, ...]:
    """Return the change that an edit proposes, as a diff."""
    path = tool_path(given)
    if path is None or tool_kind(name) is not ToolKind.EDIT:
        return ()
    path = _absolute(path, directory)
    if isinstance(content := given.get("content"), str):
        return (DiffBlock(path=path, new_text=content),)
    listed = given.get("edits")
    edits = [tool_input(edit) for edit in cast("list[Any]", listed)] if isinstance(listed, list) else [given]
    diffs = ((edit.get("old_string"), edit.get("new_string", edit.get("new_source"))) for edit in edits)
    return tuple(
        DiffBlock(path=path, new_text=new, old_text=old if isinstance(old, str) else None)
        for old, new in diffs
        if isinstance(new, str)
    )


def tool_result(block: Block, details: Any, directory: str) -> ToolCallUpdate:
    """Return the end of a tool call.

    Args:
        block: The `tool_result`.
        details: What Claude Code adds for programs, such as the old content of an edited file.
        directory: The working directory.
    """
    failed = block.is_error is True
    content: list[ToolContent] = []
    if not failed:
        content += _changed_file(tool_input(details), directory)
    text = result_text(block.content)
    if text and not content:
        content.append(TextBlock(text=text))
    return ToolCallUpdate(
        tool_call_id=block.tool_use_id, status=ToolStatus.FAILED if failed else ToolStatus.COMPLETED,
        content=tuple(content),
    )  # fmt: skip


def result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts: list[str] = []
    for item in cast("list[Any]", content):
        block = tool_input(item)
        kind = block.get("type")
        parts.append(str(block.get("text") or "") if kind == "text" else f"[{kind}]")
    return "\n".join(parts)


def _changed_file(details: dict[str, Any], directory: str) -> list[ToolContent]:
    """Return the change that an edit made: the whole file before and after, if it is short enough."""
    path, before = details.get("filePath"), details.get("originalFile")
    if not isinstance(path, str) or "structuredPatch" not in details:
        return []
    path = _absolute(path, directory)
    old, new = details.get("oldString"), details.get("newString", details.get("content"))
    if not isinstance(new, str):
        return []
    if isinstance(old, str):
        if isinstance(before, str) and old and old in before and len(before) <= _DIFF_CHARS:
            count = -1 if details.get("replaceAll") is True else 1
            return [DiffBlock(path=path, new_text=before.replace(old, new, count), old_text=before)]
        return [DiffBlock(path=path, new_text=new, old_text=old)]
    return [DiffBlock(path=path, new_text=new, old_text=before if isinstance(before, str) else None)]


def _absolute(path: str, directory: str) -> str:
    return os.path.normpath(os.path.join(directory, path))
