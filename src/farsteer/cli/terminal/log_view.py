"""A session's log as lines of text for a person. Does no I/O."""

from __future__ import annotations

from collections.abc import Sequence

from farsteer.cli.terminal.approval_prompt import describe_approval
from farsteer.cli.terminal.text import Style, StyledText, one_line
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.approvals import Outcome
from farsteer.core.events import Entry, ToolStatus, TurnEndReason
from farsteer.core.identity import describe
from farsteer.core.queue import ItemState
from farsteer.core.text import clean, clean_line

_MAX_OUTPUT_LINES = 8
_MAX_DIFF_LINES = 2000
_WIDTH = 160


def session_header(session: SessionView) -> str:
    """Return one line that says which session this is."""
    title = f" {one_line(session.title, 60)!r}" if session.title else ""
    place = f"{clean_line(session.agent)} in {clean_line(session.directory)}"
    return f"session {session.id[:8]}{title}: {place}, {session.status.value}"


def entry_lines(entry: Entry, titles: dict[str, str]) -> list[StyledText]:
    """Return the lines to print for one entry; none if it says nothing to a person.

    Args:
        entry: An entry of the session's log.
        titles: Titles of open tool calls and approvals by their ids, and the diffs that were shown of them. Pass the
            same dict for all entries of a log: later entries name only the id.
    """
    content = entry.content
    match content:
        case ev.UserMessage():
            files = [f"[{attachment.name}]" for attachment in content.attachments]
            return _text_lines("\n".join([content.text, *files]), Style.USER, first="> ", rest="  ")
        case ev.AgentMessage() if content.parent_tool_call_id is None:
            return _text_lines(content.text)
        case ev.AgentMessage():
            return _text_lines(content.text, Style.DIM, first="↳ ", rest="  ")
        case ev.AgentThought():
            return _text_lines(content.text, Style.DIM, first="∴ ", rest="  ")
        case ev.ToolCall():
            titles[content.tool_call_id] = content.title
            lines = [_line(f"● {one_line(content.title, _WIDTH)}", Style.TOOL)]
            lines += _tool_content_lines(_not_shown_yet(content.tool_call_id, content.content, titles))
            return lines + _failure_lines(content.status, content.title)
        case ev.ToolCallUpdate():
            title = content.title or titles.get(content.tool_call_id, "")
            if content.status is None or not content.status.final:
                return []
            titles.pop(content.tool_call_id, None)
            parts = _not_shown_yet(content.tool_call_id, content.content, titles)
            return _tool_content_lines(parts) + _failure_lines(content.status, title)
        case ev.Plan():
            return [
                _line(f"  {CHECKBOXES.get(step.status, '☐')} {one_line(step.content, _WIDTH)}")
                for step in content.entries
            ]
        case ev.ApprovalRequested():
            titles[content.approval.id] = content.approval.title
            first, *rest = describe_approval(content.approval, "`farsteer sessions export` shows it whole")
            return [_line(f"? {first}", Style.ASK), *(_line(f"  {line}", Style.ASK) for line in rest)]
        case ev.ApprovalResolved():
            return [_resolution_line(content, titles.pop(content.approval_id, ""))]
        case ev.Notice():
            style = Style.BAD if content.level == "error" else Style.DIM
            return _text_lines(content.text, style, first="! ", rest="  ")
        case _:
            return _status_lines(content)


def _status_lines(content: ev.SessionEvent) -> list[StyledText]:
    """Return the lines for events about the session itself."""
    match content:
        case ev.TurnEnd():
            return _turn_end_lines(content)
        case ev.QueueUpdate() if content.state in (ItemState.CANCELLED, ItemState.FAILED, ItemState.UNKNOWN):
            reason = f": {one_line(content.reason, _WIDTH)}" if content.reason else ""
            return [_line(f"! message {content.state.value}{reason}", Style.BAD)]
        case ev.LaunchStart():
            return [_line(f"· the agent {'was resumed' if content.resumed else 'is ready'}", Style.DIM)]
        case ev.LaunchEnd():
            code = "" if content.exit_code is None else f" (exit code {content.exit_code})"
            stderr = _text_lines((content.stderr or "").strip(), Style.DIM, first="  ", rest="  ")
            return [
                _line(f"· the agent ended: {one_line(content.reason, _WIDTH)}{code}", Style.DIM),
                *stderr[-_MAX_OUTPUT_LINES:],
            ]
        case ev.StatusUpdate() if content.error:
            return [_line(f"! {content.status.value}: {one_line(content.error, _WIDTH)}", Style.BAD)]
        case ev.ModeUpdate():
            values = [content.permission_mode, content.model, content.effort]
            return [
                _line(
                    f"· now {', '.join(clean_line(str(value)) for value in values if value)}{_by(content)}",
                    Style.DIM,
                )
            ]
        case ev.AgentSwitched():
            values = ", ".join(clean_line(value) for value in (content.agent, content.model) if value)
            anew = "; it does not remember what was said before" if content.anew else ""
            return [_line(f"· now {values}{_by(content)}{anew}", Style.DIM)]
        case ev.TerminalUpdate():
            where = "is open in a terminal" if content.open else "was closed in its terminal"
            return [_line(f"· the agent's own interface {where}", Style.DIM)]
        case ev.Compacted():
            return [_line("· the agent has summarised the beginning of its context", Style.DIM)]
        case ev.Rewound():
            by = _by(content)
            status = content.files.status
            files = "" if status is ev.FileRestore.SKIPPED else f" (files: {status})"
            return [_line(f"↶ rewound{by} to before message {content.first_seq}{files}", Style.DIM)]
        case ev.Other():
            return [_line(f"· {one_line(content.native_kind, _WIDTH)}", Style.DIM)]
        case _:
            return []


CHECKBOXES = {"completed": "☑", "in_progress": "▶"}

_OUTCOMES = {
    Outcome.APPROVED: "approved",
    Outcome.APPROVED_FOR_SESSION: "approved for this session",
    Outcome.DENIED: "denied",
    Outcome.ABORT: "denied, and the turn stopped",
    Outcome.TIMED_OUT: "nobody answered in time: denied",
    Outcome.CANCELLED: "no longer needed",
}


def _by(content: ev.ApprovalResolved | ev.Rewound | ev.ModeUpdate | ev.AgentSwitched) -> str:
    name = None if isinstance(content, ev.ModeUpdate | ev.AgentSwitched) else content.by
    who = describe(name, content.identity)
    return f" by {one_line(who, 80)}" if who else ""


def _resolution_line(content: ev.ApprovalResolved, title: str) -> StyledText:
    style = Style.GOOD if content.outcome.allows else Style.BAD
    return _line(f"  {resolution_text(content, title)}", style)


def resolution_text(content: ev.ApprovalResolved, title: str) -> str:
    """Return in one line how an approval was answered, and by whom."""
    by = _by(content)
    chosen = "; ".join(", ".join(texts) for texts in (content.answers or {}).values())
    message = one_line(chosen or content.message or "", _WIDTH)
    outcome = "answered" if content.answers else _OUTCOMES[content.outcome]
    text = f"{outcome}{by}{f': {message}' if message else ''}"
    return f"{one_line(title, 60)}: {text}" if title else text


def _turn_end_lines(content: ev.TurnEnd) -> list[StyledText]:
    if content.reason is TurnEndReason.END_TURN:
        return [_line("")]
    error = f": {one_line(content.error, _WIDTH)}" if content.error else ""
    return [_line(f"— turn ended: {content.reason.value.replace('_', ' ')}{error}", Style.BAD), _line("")]


def _failure_lines(status: ToolStatus, title: str) -> list[StyledText]:
    """Return a line if a tool call failed. Success needs none: its output shows it."""
    return [_line(f"  ✗ {one_line(title, _WIDTH)} failed", Style.BAD)] if status is ToolStatus.FAILED else []


def _not_shown_yet(
    tool_call_id: str, blocks: Sequence[ev.ToolContent], titles: dict[str, str]
) -> list[ev.ToolContent]:
    """Return the content without diffs that were shown before: many agents send them twice."""
    new: list[ev.ToolContent] = []
    for block in blocks:
        if isinstance(block, ev.DiffBlock):
            key = f"{tool_call_id} {block.path}"
            if titles.get(key) == block.new_text:
                continue
            titles[key] = block.new_text
        new.append(block)
    return new


def _tool_content_lines(blocks: Sequence[ev.ToolContent]) -> list[StyledText]:
    lines: list[StyledText] = []
    for block in blocks:
        if isinstance(block, ev.DiffBlock):
            lines += _diff_lines(block)
        else:
            lines += _text_lines(block.text.rstrip(), Style.DIM, first="  ", rest="  ")
    hidden = len(lines) - _MAX_OUTPUT_LINES
    if hidden <= 1:
        return lines
    return [*lines[:_MAX_OUTPUT_LINES], _line(f"  … {hidden} more lines", Style.DIM)]


def _diff_lines(block: ev.DiffBlock) -> list[StyledText]:
    import difflib

    old, new = (block.old_text or "").splitlines(), block.new_text.splitlines()
    path = _line(f"  {clean_line(block.path)}", Style.TOOL)
    if len(old) + len(new) > _MAX_DIFF_LINES:
        return [path, _line(f"  {len(old)} lines before, {len(new)} now", Style.DIM)]
    diff = [line for line in difflib.unified_diff(old, new, lineterm="", n=0) if not line.startswith("@@")]
    return [
        path,
        *(_line(f"  {clean(line)}", Style.GOOD if line.startswith("+") else Style.BAD) for line in diff[2:]),
    ]


def _text_lines(
    text: str, style: Style = Style.PLAIN, *, first: str = "", rest: str = ""
) -> list[StyledText]:
    return [
        _line((rest if index else first) + line, style) for index, line in enumerate(clean(text).split("\n"))
    ]


def _line(text: str, style: Style = Style.PLAIN) -> StyledText:
    return StyledText(text, style)


class StreamedLines:
    """Splits a message that is being streamed into finished lines and the unfinished last line."""

    def __init__(self, *, thought: bool = False) -> None:
        self._style = Style.DIM if thought else Style.PLAIN
        self._indent = "  " if thought else ""
        self._unfinished = "∴ " if thought else ""

    @property
    def unfinished(self) -> StyledText:
        """What `take_finished` has not returned yet."""
        return StyledText(self._unfinished, self._style)

    def add(self, text: str) -> None:
        self._unfinished += clean(text).replace("\n", f"\n{self._indent}")

    def take_finished(self) -> list[StyledText]:
        """Return the lines that were finished since the last call."""
        *finished, self._unfinished = self._unfinished.split("\n")
        return [StyledText(text, self._style) for text in finished]

    def take_all(self) -> list[StyledText]:
        """Return the finished lines and the last one: the message is complete."""
        return [*self.take_finished(), self.unfinished]
