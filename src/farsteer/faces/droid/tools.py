"""Tool calls of any agent as Droid's own tools, so that a client written for those can show and judge them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from farsteer.core import events as ev
from farsteer.core.events import DiffBlock, TextBlock, ToolContent
from farsteer.core.modes import ToolKind
from farsteer.core.wire import encode
from farsteer.faces.droid.notes import ToolUse

EXECUTE = "Execute"
CREATE = "Create"
EDIT = "Edit"
PATCH = "ApplyPatch"
EXIT_SPEC = "ExitSpecMode"
ASK = "AskUser"
TODO = "TodoWrite"

_OWN = {
    "Read", "LS", EXECUTE, EDIT, "MultiEdit", CREATE, PATCH, "Grep", "Glob", EXIT_SPEC, ASK, TODO, "ToolSearch",
    "WebSearch", "FetchUrl", "Skill", "Task",
}  # fmt: skip
_BY_KIND = {
    ToolKind.EXECUTE: EXECUTE,
    ToolKind.READ: "Read",
    ToolKind.SEARCH: "Grep",
    ToolKind.FETCH: "FetchUrl",
    ToolKind.SWITCH_MODE: EXIT_SPEC,
}
_COMMAND_END = re.compile(r"&&|\|\||[;|&\n]")
_RISK = "high"
"""Of what an agent does not rate: a client that allows small risks by itself must not allow this."""


def tool_use(call: ev.ToolCall, directory: str) -> ToolUse:
    """The call under Droid's name for it and with Droid's words in its input, besides the agent's own."""
    given = dict(call.input or {})
    name = call.tool or call.title
    if name not in _OWN:
        name = _BY_KIND.get(call.tool_kind, name)
    path = _path(call, directory)
    if call.tool_kind is ToolKind.EXECUTE and name == EXECUTE:
        given.setdefault("command", call.title)
        if isinstance(given["command"], list):
            given["command"] = " ".join(map(str, given["command"]))
        given.setdefault("riskLevel", _RISK)
        given.setdefault("riskLevelReason", "the agent does not say")
    elif call.tool_kind is ToolKind.EDIT and name not in (PATCH, "MultiEdit"):
        name = _change(given, call, path)
    elif name == "Read" and path is not None:
        given.setdefault("file_path", path)
    return ToolUse(id=call.tool_call_id, name=name, input=given)


def _change(given: dict[str, Any], call: ev.ToolCall, path: str | None) -> str:
    """Complete the input of a tool that changes a file; the name of the tool that it is."""
    diff = next((block for block in call.content if isinstance(block, DiffBlock)), None)
    if path is not None:
        given.setdefault("file_path", path)
    if "old_str" in given or diff is None:
        return CREATE if "content" in given else EDIT
    if diff.old_text is None:
        given.setdefault("content", diff.new_text)
        return CREATE
    given |= {"old_str": diff.old_text, "new_str": diff.new_text}
    return EDIT


def _path(call: ev.ToolCall, directory: str) -> str | None:
    if call.locations:
        named = call.locations[0].path
    else:
        named = next((block.path for block in call.content if isinstance(block, DiffBlock)), None)
    return None if named is None else os.path.join(directory, named)


def confirmation(use: ToolUse) -> tuple[str, dict[str, Any]]:
    """What kind of permission the tool needs, and what a person should see of it."""
    given = use.input
    path = str(given.get("file_path") or "")
    place = {"filePath": path, "fileName": os.path.basename(path)}
    match use.name:
        case "Execute":
            command = str(given.get("command") or "")
            names = commands_in(command)
            details: dict[str, Any] = {
                "fullCommand": command, "command": ", ".join(names), "extractedCommands": names,
                "impactLevel": given.get("riskLevel") or _RISK,
            }  # fmt: skip
            if given.get("riskLevelReason"):
                details["riskLevelReason"] = given["riskLevelReason"]
            return "exec", {"type": "exec", **details}
        case "Create":
            return "create", {"type": "create", **place, "content": str(given.get("content") or "")}
        case "Edit" | "MultiEdit":
            old, new = str(given.get("old_str") or ""), str(given.get("new_str") or "")
            return "edit", {"type": "edit", **place, "oldContent": old, "newContent": new}
        case "ApplyPatch":
            patch = str(given.get("patch") or given.get("input") or "")
            return "apply_patch", {"type": "apply_patch", **place, "patchContent": patch}
        case name:
            server, tool = _server(name)
            details = {"type": "mcp_tool", "toolName": name, "impactLevel": _RISK}
            return "mcp_tool", details | ({"serverName": server, "actualToolName": tool} if server else {})


def commands_in(line: str) -> list[str]:
    """The programs a shell command begins with, each once."""
    parts = (part.split() for part in _COMMAND_END.split(line))
    return list(dict.fromkeys(words[0] for words in parts if words))


def _server(name: str) -> tuple[str, str]:
    server, separator, tool = name.partition("___")
    if separator:
        return server, tool
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        return server, tool
    return "", name


def result_text(use: ToolUse | None, content: Iterable[ToolContent], *, failed: bool) -> str:
    """A result as Droid writes it. A failure begins with `Error:`, for that is how older clients know it."""
    text = "\n".join(_shown(block) for block in content)
    if failed:
        text = text or "Tool execution failed"
        return text if text.startswith("Error:") else f"Error: {text}"
    if use is not None and use.name == EXECUTE and "[Process exited" not in text:
        return f"{text.rstrip() or 'Command completed successfully'}\n\n[Process exited with code 0]"
    return text or "Done"


def _shown(block: ToolContent) -> str:
    if isinstance(block, TextBlock):
        return block.text
    old, new = (block.old_text or "").splitlines(), block.new_text.splitlines()
    lines = [{"type": "removed", "content": line} for line in old]
    lines += [{"type": "added", "content": line} for line in new]
    return encode({"success": True, "file_path": block.path, "diffLines": lines}).decode()
