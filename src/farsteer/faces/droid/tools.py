"""Tool calls of any agent as Droid's own tools, so that a client written for Droid can show and judge them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from farsteer.core.droid import MCP_SEPARATOR, TOOL_KINDS, ToolName
from farsteer.core.events import DiffBlock, TextBlock, ToolCall, ToolContent
from farsteer.core.modes import ToolKind
from farsteer.core.shell_commands import find_commands
from farsteer.core.wire import encode
from farsteer.faces.droid.protocol import ToolUse

_NAME_BY_KIND = {
    ToolKind.EXECUTE: ToolName.EXECUTE,
    ToolKind.READ: ToolName.READ,
    ToolKind.SEARCH: ToolName.GREP,
    ToolKind.FETCH: ToolName.FETCH_URL,
    ToolKind.SWITCH_MODE: ToolName.EXIT_SPEC_MODE,
}
_UNRATED_RISK = "high"
"""Risk of a tool call that the agent does not rate, so that no client allows it by itself."""


def tool_use_of(call: ToolCall, directory: str) -> ToolUse:
    """Return the call under the name of Droid's tool for it, with Droid's fields added to its input."""
    given = dict(call.input or {})
    name = call.tool or call.title
    if name not in TOOL_KINDS:
        name = _NAME_BY_KIND.get(call.tool_kind, name)
    path = _path_of(call, directory)
    if call.tool_kind is ToolKind.EXECUTE and name == ToolName.EXECUTE:
        given.setdefault("command", call.title)
        if isinstance(given["command"], list):
            given["command"] = " ".join(map(str, given["command"]))
        given.setdefault("riskLevel", _UNRATED_RISK)
        given.setdefault("riskLevelReason", "the agent does not say")
    elif call.tool_kind is ToolKind.EDIT and name not in (ToolName.APPLY_PATCH, ToolName.MULTI_EDIT):
        name = _complete_edit(given, call, path)
    elif name == ToolName.READ and path is not None:
        given.setdefault("file_path", path)
    return ToolUse(id=call.tool_call_id, name=name, input=given)


def _complete_edit(given: dict[str, Any], call: ToolCall, path: str | None) -> ToolName:
    """Add what Droid's Create or Edit takes to the input; return which of the two it is."""
    diff = next((block for block in call.content if isinstance(block, DiffBlock)), None)
    if path is not None:
        given.setdefault("file_path", path)
    if "old_str" in given or diff is None:
        return ToolName.CREATE if "content" in given else ToolName.EDIT
    if diff.old_text is None:
        given.setdefault("content", diff.new_text)
        return ToolName.CREATE
    given |= {"old_str": diff.old_text, "new_str": diff.new_text}
    return ToolName.EDIT


def _path_of(call: ToolCall, directory: str) -> str | None:
    if call.locations:
        path = call.locations[0].path
    else:
        path = next((block.path for block in call.content if isinstance(block, DiffBlock)), None)
    return None if path is None else os.path.join(directory, path)


def confirmation(use: ToolUse) -> tuple[str, dict[str, Any]]:
    """Return the confirmation type of a tool use and the details a person needs to decide."""
    given = use.input
    path = str(given.get("file_path") or "")
    file = {"filePath": path, "fileName": os.path.basename(path)}
    match use.name:
        case ToolName.EXECUTE:
            command = str(given.get("command") or "")
            programs = programs_in(command)
            details: dict[str, Any] = {
                "fullCommand": command, "command": ", ".join(programs), "extractedCommands": programs,
                "impactLevel": given.get("riskLevel") or _UNRATED_RISK,
            }  # fmt: skip
            if given.get("riskLevelReason"):
                details["riskLevelReason"] = given["riskLevelReason"]
            return "exec", {"type": "exec", **details}
        case ToolName.CREATE:
            return "create", {"type": "create", **file, "content": str(given.get("content") or "")}
        case ToolName.EDIT | ToolName.MULTI_EDIT:
            old, new = str(given.get("old_str") or ""), str(given.get("new_str") or "")
            return "edit", {"type": "edit", **file, "oldContent": old, "newContent": new}
        case ToolName.APPLY_PATCH:
            patch = str(given.get("patch") or given.get("input") or "")
            return "apply_patch", {"type": "apply_patch", **file, "patchContent": patch}
        case name:
            server, tool = _mcp_name(name)
            details = {"type": "mcp_tool", "toolName": name, "impactLevel": _UNRATED_RISK}
            return "mcp_tool", details | ({"serverName": server, "actualToolName": tool} if server else {})


def programs_in(command: str) -> list[str]:
    """Return what a shell command starts, each once, as Droid names it; the whole command if nothing is found in it."""
    names = (
        f"git {one.words[0]}" if one.name == "git" and one.words and one.words[0].isalpha() else one.name
        for one in find_commands(command)
    )
    return list(dict.fromkeys(names)) or [command.strip()] * bool(command.strip())


def _mcp_name(name: str) -> tuple[str, str]:
    """Return the server and the tool of an MCP tool's name, in Droid's or Claude Code's form."""
    server, separator, tool = name.partition(MCP_SEPARATOR)
    if separator:
        return server, tool
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        return server, tool
    return "", name


def result_text(use: ToolUse | None, content: Iterable[ToolContent], *, failed: bool) -> str:
    """Return a tool result as Droid writes it. Older clients recognise a failure by its prefix `Error:`."""
    text = "\n".join(_block_text(block) for block in content)
    if failed:
        text = text or "Tool execution failed"
        return text if text.startswith("Error:") else f"Error: {text}"
    if use is not None and use.name == ToolName.EXECUTE and "[Process exited" not in text:
        return f"{text.rstrip() or 'Command completed successfully'}\n\n[Process exited with code 0]"
    return text or "Done"


def _block_text(block: ToolContent) -> str:
    if isinstance(block, TextBlock):
        return block.text
    old, new = (block.old_text or "").splitlines(), block.new_text.splitlines()
    lines = [{"type": "removed", "content": line} for line in old]
    lines += [{"type": "added", "content": line} for line in new]
    return encode({"success": True, "file_path": block.path, "diffLines": lines}).decode()
