"""Tools: shell commands and files of the session's directory, used with a person's permission where it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from farsteer.agents.demo.turn import DemoTurn, TurnInterrupted
from farsteer.core.modes import ToolKind, ToolPermission

_OPTIONS = (
    {"id": "allow", "name": "Allow", "kind": "allow_once"},
    {"id": "always", "name": "Allow for this session", "kind": "allow_always"},
    {"id": "reject", "name": "Reject", "kind": "reject_once"},
)
_SHELL_RESULT_CHARS = 64 * 1024
"""How much of a command's output its result keeps. All of it is streamed."""
_SHOWN_CHARS = 64 * 1024
_MAX_FILE_BYTES = 1024 * 1024


class ToolFailed(Exception):
    """The tool did not work; the message says why."""


class Tool:
    """One intended use of a tool. `run` takes the turn and the id of the tool call and returns the result to show."""

    def __init__(
        self, name: str, kind: ToolKind, title: str, run: Callable[[DemoTurn, str], str], *, arguments: dict[str, Any],
        path: str | None = None, diff: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.kind = kind
        self.title = title
        self.run = run
        self.arguments = arguments
        self.path = path
        self.diff = diff


def use_tools(turn: DemoTurn, *tools: Tool) -> int:
    """Use the tools and return how many succeeded. All needed permissions are asked at once."""
    succeeded = 0
    waiting: dict[str, tuple[Tool, str]] = {}
    for tool in tools:
        call = _send_tool_call(turn, tool)
        permission = turn.session.tool_permission(tool.name, tool.kind)
        if permission is ToolPermission.ALLOW:
            succeeded += _run(turn, tool, call)
        elif permission is ToolPermission.DENY:
            _fail(turn, call, f"not allowed in permission mode {turn.session.mode.value}")
        else:
            waiting[_ask(turn, tool, call)] = tool, call
    for reply in turn.wait_replies({*waiting}):
        tool, call = waiting[reply.ask]
        if not reply.allow:
            _fail(turn, call, f"denied: {reply.message}" if reply.message else "denied")
            continue
        for name in [*reply.tools, *([tool.name] if reply.always else [])]:
            turn.session.history.add({"role": "allow", "tool": name})
        succeeded += _run(turn, tool, call)
    return succeeded


def _send_tool_call(turn: DemoTurn, tool: Tool) -> str:
    call = turn.session.new_id("c")
    turn.session.writer.send(
        "tool", call=call, tool=tool.name, kind=tool.kind.value, title=tool.title, input=tool.arguments,
        status="pending", path=tool.path, diff=tool.diff,
    )  # fmt: skip
    return call


def _ask(turn: DemoTurn, tool: Tool, call: str) -> str:
    arguments = {**tool.arguments, "diff": tool.diff} if tool.diff else tool.arguments
    return turn.send_ask(
        "permission", tool.title, call=call, tool=tool.name, toolKind=tool.kind.value, arguments=arguments,
        options=_OPTIONS,
    )  # fmt: skip


def _run(turn: DemoTurn, tool: Tool, call: str) -> bool:
    turn.session.writer.send("tool_update", call=call, status="in_progress")
    try:
        result = tool.run(turn, call)
    except (ToolFailed, OSError) as error:
        _fail(turn, call, str(error))
        return False
    except TurnInterrupted:
        _fail(turn, call, "interrupted", partial=True)
        raise
    turn.session.writer.send("tool_update", call=call, status="completed", text=result)
    return True


def _fail(turn: DemoTurn, call: str, reason: str, *, partial: bool | None = None) -> None:
    turn.session.writer.send("tool_update", call=call, status="failed", text=reason, partial=partial)


def shell_tool(command: str) -> Tool:
    def run(turn: DemoTurn, call: str) -> str:
        shell, kept = turn.session.shell, ""
        for text in shell.run(command):
            turn.session.writer.send("tool_output", call=call, text=text)
            kept = (kept + text)[-_SHELL_RESULT_CHARS:]
        code = shell.wait()
        turn.check_interrupt()
        if code:
            # The words of Droid, which its clients know.
            raise ToolFailed(
                f"Error: Command failed (exit code: {code})\n{kept}\n\n[Process exited with code {code}]"
            )
        return kept

    return Tool("run", ToolKind.EXECUTE, f"Run {command}", run, arguments={"command": command})


def read_tool(turn: DemoTurn, name: str) -> Tool:
    path = _resolve(turn, name)

    def run(turn: DemoTurn, call: str) -> str:
        text = _content(path)
        if text is None:
            raise ToolFailed(f"there is no file {name}")
        return text[:_SHOWN_CHARS]

    return Tool("read", ToolKind.READ, f"Read {name}", run, arguments={"path": name}, path=path)


def write_tool(turn: DemoTurn, name: str, text: str) -> Tool:
    path = _resolve(turn, name)
    return _change_tool("write", f"Write {name}", turn, name, _content(path), text)


def edit_tool(turn: DemoTurn, name: str, old: str, new: str) -> Tool:
    before = _content(_resolve(turn, name))
    if before is None:
        raise ToolFailed(f"there is no file {name}")
    if old not in before:
        raise ToolFailed(f"{name} does not contain {old!r}")
    return _change_tool("edit", f"Edit {name}", turn, name, before, before.replace(old, new, 1))


def delete_tool(turn: DemoTurn, name: str) -> Tool:
    path = _resolve(turn, name)

    def run(turn: DemoTurn, call: str) -> str:
        copies, path = turn.session.copies, _resolve(turn, name)
        with copies.lock:
            copies.save(path)
            os.unlink(path)
        return f"deleted {name}"

    return Tool("delete", ToolKind.DELETE, f"Delete {name}", run, arguments={"path": name}, path=path)


def _change_tool(tool: str, title: str, turn: DemoTurn, name: str, before: str | None, after: str) -> Tool:
    def run(turn: DemoTurn, call: str) -> str:
        # Only the change that was shown and approved may happen.
        if _content(_resolve(turn, name)) != before:
            raise ToolFailed(f"{name} has changed since it was shown")
        copies, path = turn.session.copies, _resolve(turn, name)
        with copies.lock:
            copies.save(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
                file.write(after)
        return f"wrote {len(after)} characters to {name}"

    path, diff = _resolve(turn, name), {"path": name, "old": before, "new": after}
    return Tool(tool, ToolKind.EDIT, title, run, arguments={"path": name}, path=path, diff=diff)


def _resolve(turn: DemoTurn, name: str) -> str:
    """Return the real path of `name`. Raises ToolFailed if it is outside of the session's directory."""
    directory = os.path.realpath(turn.session.directory)
    path = os.path.realpath(os.path.join(directory, name.replace("\0", "?")))
    if path == directory or os.path.commonpath([directory, path]) != directory:
        raise ToolFailed(f"{name} is outside of {directory}")
    return path


def _content(path: str) -> str | None:
    """Return the text of a file, or None if it does not exist. Raises ToolFailed."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolFailed(str(error)) from None
    if len(data) > _MAX_FILE_BYTES:
        raise ToolFailed(f"{os.path.basename(path)} is larger than {_MAX_FILE_BYTES} bytes")
    return data.decode(errors="replace")
