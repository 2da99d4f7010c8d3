"""A session's log as lines for a person. Pure; colours are names that a terminal may or may not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from farsteer.cli.asking import describe
from farsteer.cli.text import clean, one_line
from farsteer.core import events as ev
from farsteer.core.approvals import Outcome
from farsteer.core.events import Entry, ToolStatus, TurnEndReason
from farsteer.core.queue import ItemState

_OUTPUT_LINES = 8
_WIDTH = 160
_DIFF_LINES = 2000


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    style: str = ""


DIM, USER, TOOL, GOOD, BAD, ASK = "dim", "bold cyan", "blue", "green", "red", "bold yellow"


def lines_of(entry: Entry, tools: dict[str, str] | None = None) -> list[Line]:
    """The lines an entry adds. `tools` remembers titles of tool calls and approvals for the entries that follow."""
    titles: dict[str, str] = {} if tools is None else tools
    content = entry.content
    match content:
        case ev.UserMessage():
            files = [f"[{attachment.name}]" for attachment in content.attachments]
            return _lines("\n".join([content.text, *files]), USER, first="> ", rest="  ")
        case ev.AgentMessage():
            return _lines(content.text)
        case ev.AgentThought():
            return _lines(content.text, DIM, first="∴ ", rest="  ")
        case ev.ToolCall():
            titles[content.tool_call_id] = content.title
            lines = [Line(f"● {one_line(content.title, _WIDTH)}", TOOL), *_content(content.content)]
            return lines + _ended(content.status, content.title) if content.status.final else lines
        case ev.ToolCallUpdate():
            title = content.title or titles.get(content.tool_call_id, "")
            if content.status is None or not content.status.final:
                return []
            titles.pop(content.tool_call_id, None)
            return [*_content(content.content), *_ended(content.status, title)]
        case ev.Plan():
            return [
                Line(f"  {_BOXES.get(step.status, '☐')} {one_line(step.content, _WIDTH)}")
                for step in content.entries
            ]
        case ev.ApprovalRequested():
            titles[content.approval.id] = content.approval.title
            first, *rest = describe(content.approval)
            return [Line(f"? {first}", ASK), *(Line(f"  {line}", ASK) for line in rest)]
        case ev.ApprovalResolved():
            return [_resolved(content, titles.pop(content.approval_id, ""))]
        case ev.Notice():
            return _lines(content.text, BAD if content.level == "error" else DIM, first="! ", rest="  ")
        case _:
            return _system(content)


def _system(content: ev.SessionEvent) -> list[Line]:
    match content:
        case ev.TurnEnd():
            return _turn_end(content)
        case ev.QueueUpdate() if content.state in (ItemState.CANCELLED, ItemState.FAILED, ItemState.UNKNOWN):
            why = f": {one_line(content.reason, _WIDTH)}" if content.reason else ""
            return [Line(f"! message {content.state.value}{why}", BAD)]
        case ev.LaunchStart():
            return [Line(f"· the agent {'is back' if content.resumed else 'is ready'}", DIM)]
        case ev.LaunchEnd():
            tail = _lines((content.stderr or "").strip(), DIM, first="  ", rest="  ")[-_OUTPUT_LINES:]
            code = "" if content.exit_code is None else f" (exit code {content.exit_code})"
            return [Line(f"· the agent ended: {one_line(content.reason, _WIDTH)}{code}", DIM), *tail]
        case ev.StatusUpdate() if content.error:
            return [Line(f"! {content.status.value}: {one_line(content.error, _WIDTH)}", BAD)]
        case ev.ModeUpdate():
            given = [content.permission_mode, content.model, content.effort]
            return [Line(f"· now {', '.join(clean(str(value)) for value in given if value)}", DIM)]
        case ev.Rewound():
            files = (
                "" if content.files.status is ev.FileRestore.SKIPPED else f" (files: {content.files.status})"
            )
            by = f" by {one_line(content.by, 60)}" if content.by else ""
            return [Line(f"↶ rewound{by}: it goes on from before {content.first_seq}{files}", DIM)]
        case ev.Other():
            return [Line(f"· {one_line(content.native_kind, _WIDTH)}", DIM)]
        case _:
            return []


_BOXES = {"completed": "☑", "in_progress": "▶"}

_OUTCOMES = {
    Outcome.APPROVED: "approved",
    Outcome.APPROVED_FOR_SESSION: "approved for this session",
    Outcome.DENIED: "denied",
    Outcome.ABORT: "denied, and the turn stopped",
    Outcome.TIMED_OUT: "nobody answered in time: denied",
    Outcome.CANCELLED: "no longer needed",
}


def _resolved(content: ev.ApprovalResolved, title: str) -> Line:
    by = f" by {one_line(content.by, 60)}" if content.by else ""
    chosen = "; ".join(", ".join(texts) for texts in (content.answers or {}).values())
    said = one_line(chosen or content.message or "", _WIDTH)
    outcome = "answered" if content.answers else _OUTCOMES[content.outcome]
    text = f"{outcome}{by}{f': {said}' if said else ''}"
    if title:
        text = f"{one_line(title, 60)}: {text}"
    return Line(f"  {text}", GOOD if content.outcome.allows else BAD)


def _turn_end(content: ev.TurnEnd) -> list[Line]:
    if content.reason is TurnEndReason.END_TURN:
        return [Line("")]
    why = f": {one_line(content.error, _WIDTH)}" if content.error else ""
    return [Line(f"— turn ended: {content.reason.value.replace('_', ' ')}{why}", BAD), Line("")]


def _ended(status: ToolStatus, title: str) -> list[Line]:
    # A success shows in what it did; a failure must not be missed.
    return [Line(f"  ✗ {one_line(title, _WIDTH)} failed", BAD)] if status is ToolStatus.FAILED else []


def _content(blocks: Sequence[ev.ToolContent]) -> list[Line]:
    lines: list[Line] = []
    for block in blocks:
        if isinstance(block, ev.DiffBlock):
            lines += _diff(block)
        else:
            lines += _lines(block.text.rstrip(), DIM, first="  ", rest="  ")
    return _shortened(lines)


def _diff(block: ev.DiffBlock) -> list[Line]:
    import difflib

    old, new = (block.old_text or "").splitlines(), block.new_text.splitlines()
    lines = [Line(f"  {clean(block.path)}", TOOL)]
    if len(old) + len(new) > _DIFF_LINES:
        return [*lines, Line(f"  {len(old)} lines before, {len(new)} now", DIM)]
    changed = [
        line for line in difflib.unified_diff(old, new, lineterm="", n=0) if not line.startswith("@@")
    ][2:]
    return lines + [Line(f"  {clean(line)}", GOOD if line.startswith("+") else BAD) for line in changed]


def _shortened(lines: list[Line]) -> list[Line]:
    more = len(lines) - _OUTPUT_LINES
    return lines if more <= 1 else [*lines[:_OUTPUT_LINES], Line(f"  … {more} more lines", DIM)]


def _lines(text: str, style: str = "", *, first: str = "", rest: str = "") -> list[Line]:
    return [
        Line((rest if index else first) + line, style) for index, line in enumerate(clean(text).split("\n"))
    ]
