"""Codex's items as events: tool calls with their kind, title, changes and results, and items of stored turns."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import Any, cast

from farsteer.agents.codex import protocol
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Compacted,
    DiffBlock,
    Location,
    SessionEvent,
    TextBlock,
    ToolCall,
    ToolCallUpdate,
    ToolContent,
    ToolStatus,
    UserMessage,
)
from farsteer.core.modes import ToolKind
from farsteer.core.text import clean_line
from farsteer.jsonrpc.messages import as_object

ToolItem = (
    protocol.CommandItem
    | protocol.FileChangeItem
    | protocol.McpToolCallItem
    | protocol.DynamicToolCallItem
    | protocol.CollabToolCallItem
    | protocol.WebSearchItem
    | protocol.ImageViewItem
    | protocol.ImageGenerationItem
)

_TITLE_CHARS = 120
_MAX_QUOTED = 16 * 1024
"""A longer command keeps its quotes: taking them off takes time."""
_FAILED = frozenset({"failed", "declined", "errored", "interrupted"})
_ACTION_KINDS = {"read": ToolKind.READ, "listFiles": ToolKind.SEARCH, "search": ToolKind.SEARCH}
_HUNK = re.compile(r"@@ ")
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da|k)?sh -l?c ")
_COLLAB_TITLES = {
    "spawnAgent": "Start a sub-agent",
    "sendInput": "Message to a sub-agent",
    "sendMessage": "Message to a sub-agent",
    "followupTask": "Task for a sub-agent",
    "resumeAgent": "Resume a sub-agent",
    "wait": "Wait for sub-agents",
    "closeAgent": "Close a sub-agent",
    "interruptAgent": "Interrupt a sub-agent",
    "listAgents": "List the sub-agents",
}


def stored_events(item: protocol.Item, turn_id: str) -> list[SessionEvent]:
    """Return the events of an item that Codex has stored. The turn is the anchor of its messages."""
    match item:
        case protocol.UserMessageItem():
            # A message of ours has our own id.
            return [UserMessage(item_id=item.client_id or item.id, text=message_text(item))]
        case protocol.AgentMessageItem() | protocol.PlanItem():
            return [AgentMessage(message_id=item.id, text=item.text, anchor=turn_id)]
        case protocol.ReasoningItem():
            text = "\n\n".join([*item.summary, *item.content])
            return [AgentThought(message_id=item.id, text=text, anchor=turn_id)] if text else []
        case protocol.CompactionItem():
            return [Compacted()]
        case protocol.SubAgentActivityItem():
            return []
        case _:
            done = ToolCallUpdate(
                tool_call_id=item.id, status=final_status(item), content=result_content(item)
            )
            return [tool_call(item), done]


def message_text(item: protocol.UserMessageItem) -> str:
    """Return the text of a person's message."""
    return "\n".join(str(part["text"]) for part in item.content if isinstance(part.get("text"), str))


def tool_call(item: ToolItem, parent: str | None = None) -> ToolCall:
    """Return the event of a tool call that begins."""
    return ToolCall(
        tool_call_id=item.id, title=tool_title(item), tool_kind=tool_kind(item), status=ToolStatus.IN_PROGRESS,
        tool=tool_name(item), input=tool_input(item), locations=locations(item), content=changes(item),
        parent_tool_call_id=parent,
    )  # fmt: skip


def tool_name(item: ToolItem) -> str:
    match item:
        case protocol.CommandItem():
            return "exec_command"
        case protocol.FileChangeItem():
            return "apply_patch"
        case protocol.McpToolCallItem(server=server, tool=tool):
            return f"mcp__{server}__{tool}"
        case protocol.WebSearchItem():
            return "web_search"
        case protocol.ImageViewItem():
            return "view_image"
        case protocol.ImageGenerationItem():
            return "image_generation"
        case _:
            return item.tool


def tool_kind(item: ToolItem) -> ToolKind:
    match item:
        case protocol.CommandItem():
            kinds = {_ACTION_KINDS.get(str(action.get("type"))) for action in item.command_actions}
            # Codex's own reading of the command, good enough to show. No permission depends on it.
            return kinds.pop() or ToolKind.EXECUTE if len(kinds) == 1 else ToolKind.EXECUTE
        case protocol.FileChangeItem():
            is_deletion = bool(item.changes) and all(
                change.kind.get("type") == "delete" for change in item.changes
            )
            return ToolKind.DELETE if is_deletion else ToolKind.EDIT
        case protocol.WebSearchItem():
            return ToolKind.FETCH
        case protocol.ImageViewItem():
            return ToolKind.READ
        case _:
            return ToolKind.OTHER


def tool_title(item: ToolItem) -> str:
    """Return one line that says what the tool is about to do."""
    match item:
        case protocol.CommandItem(command=command):
            return command_title(command)
        case protocol.FileChangeItem():
            return changes_title(item.changes)
        case protocol.McpToolCallItem(server=server, tool=tool):
            return clean_line(f"{server}: {tool}", _TITLE_CHARS)
        case protocol.CollabToolCallItem(tool=tool, prompt=prompt):
            title = _COLLAB_TITLES.get(tool, tool)
            return clean_line(f"{title}: {prompt}" if prompt else title, _TITLE_CHARS)
        case protocol.WebSearchItem(query=query, action=action):
            found = action or {}
            return clean_line(
                f"Web search: {query or found.get('query') or found.get('url') or ''}", _TITLE_CHARS
            )
        case protocol.ImageViewItem(path=path):
            return clean_line(f"View {PurePosixPath(path).name}", _TITLE_CHARS)
        case protocol.ImageGenerationItem(revised_prompt=prompt):
            return clean_line(f"Image: {prompt or ''}", _TITLE_CHARS)
        case _:
            return clean_line(item.tool, _TITLE_CHARS)


def command_title(command: str) -> str:
    """Return the command without the shell that Codex puts around it."""
    return clean_line(unwrapped(command), _TITLE_CHARS) or "a command"


def unwrapped(command: str) -> str:
    """Return the command that a shell runs, or the whole command if it is another one."""
    shell = _SHELL.match(command)
    if shell is None:
        return command
    rest = command[shell.end() :]
    if len(rest) > _MAX_QUOTED:
        return rest
    try:
        words = shlex.split(rest)
    except ValueError:
        return rest
    return words[0] if len(words) == 1 else rest


def changes_title(files: list[protocol.FileChange]) -> str:
    names = ", ".join(PurePosixPath(change.path).name for change in files)
    verbs = {str(change.kind.get("type")) for change in files}
    verb = {"add": "Create", "delete": "Delete"}.get(verbs.pop() if len(verbs) == 1 else "", "Edit")
    return clean_line(f"{verb} {names}" if names else "Edit files", _TITLE_CHARS)


def tool_input(item: ToolItem) -> dict[str, Any] | None:
    match item:
        case protocol.CommandItem():
            return {"command": unwrapped(item.command), "cwd": item.cwd}
        case protocol.FileChangeItem():
            return {"changes": [{"path": change.path, "kind": change.kind} for change in item.changes]}
        case protocol.McpToolCallItem() | protocol.DynamicToolCallItem():
            given = item.arguments
            return cast("dict[str, Any]", given) if isinstance(given, dict) else {"arguments": given}
        case protocol.CollabToolCallItem():
            return {"prompt": item.prompt} if item.prompt else None
        case protocol.WebSearchItem():
            return {"query": item.query, "action": item.action}
        case protocol.ImageViewItem():
            return {"path": item.path}
        case protocol.ImageGenerationItem():
            return {"prompt": item.revised_prompt} if item.revised_prompt else None


def locations(item: ToolItem) -> tuple[Location, ...]:
    match item:
        case protocol.FileChangeItem():
            return tuple(Location(path=change.path) for change in item.changes)
        case protocol.ImageViewItem(path=path):
            return (Location(path=path),)
        case protocol.CommandItem():
            paths = (action.get("path") for action in item.command_actions if action.get("type") == "read")
            return tuple(Location(path=path) for path in paths if isinstance(path, str) and path)
        case _:
            return ()


# -- results


def final_status(item: ToolItem) -> ToolStatus:
    status: str | None = getattr(item, "status", None)
    if status in _FAILED or (isinstance(item, protocol.CommandItem) and item.exit_code not in (None, 0)):
        return ToolStatus.FAILED
    return ToolStatus.COMPLETED


def result_content(item: ToolItem) -> tuple[ToolContent, ...]:
    """Return what a finished tool call shows."""
    match item:
        case protocol.CommandItem():
            return _text(item.aggregated_output)
        case protocol.FileChangeItem():
            return changes(item)
        case protocol.McpToolCallItem():
            if item.error is not None:
                return _text(str(item.error.get("message") or item.error))
            result = cast("dict[str, Any]", item.result) if isinstance(item.result, dict) else {}
            return _text(_blocks_text(result.get("content")))
        case protocol.DynamicToolCallItem():
            return _text(_blocks_text(item.content_items))
        case protocol.CollabToolCallItem():
            return _text("\n".join(map(_state_text, item.agents_states.values())))
        case protocol.ImageGenerationItem():
            return _text(item.saved_path)
        case _:
            return ()


def changes(item: ToolItem) -> tuple[ToolContent, ...]:
    if not isinstance(item, protocol.FileChangeItem):
        return ()
    return tuple(block for change in item.changes for block in change_blocks(change))


def change_blocks(change: protocol.FileChange) -> tuple[ToolContent, ...]:
    """Return a file change as old and new text. Of a changed file these are the lines of each hunk only."""
    match change.kind.get("type"):
        case "add":
            return (DiffBlock(path=change.path, new_text=change.diff),)
        case "delete":
            return (DiffBlock(path=change.path, old_text=change.diff, new_text=""),)
        case _:
            target = change.kind.get("move_path")
            path = target if isinstance(target, str) and target else change.path
            hunks = tuple(_hunk(path, hunk) for hunk in _hunks(change.diff))
            return hunks or _text(change.diff)


def _hunks(diff: str) -> list[list[str]]:
    found: list[list[str]] = []
    for line in diff.splitlines(keepends=True):
        if _HUNK.match(line):
            found.append([])
        elif found:
            found[-1].append(line)
    return found


def _hunk(path: str, lines: list[str]) -> DiffBlock:
    old = "".join(line[1:] for line in lines if line[:1] in (" ", "-"))
    new = "".join(line[1:] for line in lines if line[:1] in (" ", "+"))
    return DiffBlock(path=path, old_text=old, new_text=new)


def _text(text: str | None) -> tuple[ToolContent, ...]:
    return (TextBlock(text=text),) if text else ()


def _blocks_text(blocks: Any) -> str:
    if not isinstance(blocks, list):
        return ""
    found = (as_object(block) or {} for block in cast("list[Any]", blocks))
    return "\n".join(str(block["text"]) for block in found if isinstance(block.get("text"), str))


def _state_text(value: Any) -> str:
    state = as_object(value) or {}
    return ": ".join(str(part) for part in (state.get("status"), state.get("message")) if part)
