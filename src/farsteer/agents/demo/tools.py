"""Using a tool: tell the client, ask a person where the permission mode says so, act, tell how it went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farsteer.agents.demo.turn import Interrupted, Turn
from farsteer.core.modes import ToolKind, ToolPermission

OPTIONS = (
    {"id": "allow", "name": "Allow", "kind": "allow_once"},
    {"id": "always", "name": "Allow for this session", "kind": "allow_always"},
    {"id": "reject", "name": "Reject", "kind": "reject_once"},
)


class ToolFailed(Exception):
    """It did not work; the message says why."""


class Tool:
    """One intended use of a tool. `act` does it and returns what to show."""

    def __init__(
        self, name: str, kind: ToolKind, title: str, act: Callable[[Turn, str], str], *, arguments: dict[str, Any],
        path: str | None = None, diff: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.kind = kind
        self.title = title
        self.act = act
        self.arguments = arguments
        self.path = path
        self.diff = diff


def use(turn: Turn, *tools: Tool) -> int:
    """Use all of them; what needs a person is asked at once and done as the answers come. How many were done."""
    done = 0
    waiting: dict[str, tuple[Tool, str]] = {}
    for tool in tools:
        call = _announce(turn, tool)
        found = turn.session.tool_permission(tool.name, tool.kind)
        if found is ToolPermission.ALLOW:
            done += _act(turn, tool, call)
        elif found is ToolPermission.DENY:
            _fail(turn, call, f"not allowed in permission mode {turn.session.mode.value}")
        else:
            waiting[_ask(turn, tool, call)] = tool, call
    for answer in turn.answers({*waiting}):
        tool, call = waiting[answer.ask]
        if not answer.allow:
            _fail(turn, call, f"denied: {answer.message}" if answer.message else "denied")
            continue
        for name in [*answer.tools, *([tool.name] if answer.always else [])]:
            turn.session.history.add({"role": "allow", "tool": name})
        done += _act(turn, tool, call)
    return done


def _announce(turn: Turn, tool: Tool) -> str:
    call = turn.session.new_id("c")
    turn.session.out.send(
        "tool", call=call, tool=tool.name, kind=tool.kind.value, title=tool.title, input=tool.arguments,
        status="pending", path=tool.path, diff=tool.diff,
    )  # fmt: skip
    return call


def _ask(turn: Turn, tool: Tool, call: str) -> str:
    arguments = {**tool.arguments, "diff": tool.diff} if tool.diff else tool.arguments
    return turn.begin_ask(
        "permission", tool.title, call=call, tool=tool.name, toolKind=tool.kind.value, arguments=arguments,
        options=OPTIONS,
    )  # fmt: skip


def _act(turn: Turn, tool: Tool, call: str) -> bool:
    turn.session.out.send("tool_update", call=call, status="in_progress")
    try:
        shown = tool.act(turn, call)
    except (ToolFailed, OSError) as error:
        _fail(turn, call, str(error))
        return False
    except Interrupted:
        _fail(turn, call, "interrupted")
        raise
    turn.session.out.send("tool_update", call=call, status="completed", text=shown)
    return True


def _fail(turn: Turn, call: str, why: str) -> None:
    turn.session.out.send("tool_update", call=call, status="failed", text=why)
