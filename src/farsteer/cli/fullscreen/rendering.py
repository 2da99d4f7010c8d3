"""Draws blocks with rich. All text of the log is cleaned here: none of it can control the terminal."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import Heading, Markdown
from rich.padding import Padding
from rich.text import Text

from farsteer.cli.terminal.approval_prompt import describe_approval
from farsteer.cli.terminal.blocks import (
    ApprovalBlock,
    Block,
    MessageBlock,
    NoteBlock,
    PlanBlock,
    Speaker,
    ToolBlock,
)
from farsteer.cli.terminal.log_view import CHECKBOXES, resolution_text
from farsteer.cli.terminal.text import Style, one_line
from farsteer.core import events as ev
from farsteer.core.approvals import ApprovalKind
from farsteer.core.events import ToolStatus
from farsteer.core.text import clean, clean_line

FOLDED_LINES = 4
FOLDED_DIFF_LINES = 16
_MAX_LINES = 5000
_MAX_DIFF_LINES = 4000
_MAX_TITLE = 2000
_STATUS_MARKS = {
    ToolStatus.PENDING: ("○", Style.TOOL),
    ToolStatus.IN_PROGRESS: ("◐", Style.TOOL),
    ToolStatus.COMPLETED: ("●", Style.GOOD),
    ToolStatus.FAILED: ("✗", Style.BAD),
}


class _PlainHeading(Heading):
    """A heading at the left margin, without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        if self.tag == "h1":
            self.text.stylize("underline")
        yield self.text


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _PlainHeading}


def markdown(text: str) -> RenderableType:
    """Return Markdown of an agent. Links show their address, so that a text cannot pretend to lead elsewhere."""
    return _Markdown(clean(text), code_theme="ansi_dark", hyperlinks=False)


def render_block(block: Block, *, unfolded: bool) -> RenderableType:
    """Return what shows a block."""
    match block:
        case MessageBlock():
            return _message(block)
        case ToolBlock():
            return _tool(block, unfolded=unfolded)
        case PlanBlock():
            return _plan(block.entries)
        case ApprovalBlock():
            return _approval(block)
        case NoteBlock():
            return Text("\n").join(Text(line.text, style=line.style) for line in block.lines)
        case _:
            raise AssertionError(block)


def belongs_to(block: Block, above: Block) -> bool:
    """Return whether no empty line separates a block from the one above."""
    if isinstance(block, ApprovalBlock) and block.approval.kind is ApprovalKind.PERMISSION:
        return isinstance(above, ToolBlock | ApprovalBlock)
    return isinstance(block, NoteBlock) and isinstance(above, NoteBlock)


def can_unfold(block: Block) -> bool:
    """Return whether a block has more to show than it does folded."""
    return isinstance(block, ToolBlock) and bool(_details(block)[1])


def _message(block: MessageBlock) -> RenderableType:
    text = block.text.rstrip()
    match block.speaker:
        case Speaker.PERSON:
            return _beside("> ", Text(clean(text), style=Style.USER), Style.USER)
        case Speaker.THOUGHT:
            return _beside("∴ ", Text(clean(text), style="dim italic"), Style.DIM)
        case Speaker.SUBAGENT:
            return _beside("↳ ", Text(clean(text), style=Style.DIM), Style.DIM)
        case Speaker.AGENT:
            shown = markdown(text)
            if block.streaming:
                return shown
            return Group(shown, Text("(not complete)", style=Style.DIM)) if block.partial else shown


def _beside(mark: str, text: Text, style: Style) -> RenderableType:
    """Return a text whose lines are all indented by the width of a mark before the first one."""
    from rich.table import Table

    grid = Table.grid(expand=False)
    grid.add_column(width=len(mark), no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=style), text)
    return grid


def _tool(block: ToolBlock, *, unfolded: bool) -> RenderableType:
    mark, style = _STATUS_MARKS[block.status]
    inner = block.call.parent_tool_call_id is not None
    title = Text(clean_line(block.title, _MAX_TITLE), style="bold")
    if block.status is ToolStatus.FAILED:
        title.append("  failed", style=Style.BAD)
    head = _beside(f"{mark} ", title, style)
    lines, hidden = _details(block)
    if unfolded:
        lines, hidden = [*lines, *hidden], []
    rows: list[RenderableType] = [head, *(Padding(line, (0, 0, 0, 2)) for line in lines)]
    if hidden:
        rows.append(Text(f"  … {len(hidden)} more lines (Ctrl-O unfolds)", style=Style.DIM))
    return Padding(Group(*rows), (0, 0, 0, 2)) if inner else Group(*rows)


def _details(block: ToolBlock) -> tuple[list[Text], list[Text]]:
    """Return the lines that a tool call shows folded, and those that it then hides."""
    diffs: list[Text] = []
    output: list[Text] = []
    for part in block.content:
        if isinstance(part, ev.DiffBlock):
            diffs += diff_lines(part)
        else:
            output += _output_lines(part.text)
    output += _output_lines(block.live_output)
    # What a tool has written last says most while it runs.
    running = not block.status.final and len(output) > FOLDED_LINES
    shown, hidden = _split(diffs, FOLDED_DIFF_LINES)
    if running:
        return [*shown, *output[-FOLDED_LINES:]], [*hidden, *output[:-FOLDED_LINES]]
    more, rest = _split(output, FOLDED_LINES)
    return [*shown, *more], [*hidden, *rest]


def _split(lines: list[Text], count: int) -> tuple[list[Text], list[Text]]:
    """Return the first lines and the others. A single line more is not worth hiding."""
    return (lines, []) if len(lines) <= count + 1 else (lines[:count], lines[count:])


def _output_lines(text: str) -> list[Text]:
    text = clean(text).rstrip()
    return [Text(line, style=Style.DIM) for line in text.split("\n")[:_MAX_LINES]] if text else []


def diff_lines(block: ev.DiffBlock) -> list[Text]:
    """Return a change of a file as lines: added ones begin with +, removed ones with -."""
    old, new = clean(block.old_text or "").splitlines(), clean(block.new_text).splitlines()
    head = Text(clean_line(block.path), style=Style.TOOL)
    if len(old) + len(new) > _MAX_DIFF_LINES:
        return [head.append(f"  {len(old)} lines before, {len(new)} now", style=Style.DIM)]
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    head.append(f"  +{added} -{removed}", style=Style.DIM)
    return [head, *(_diff_line(line) for line in lines)]


def _diff_line(line: str) -> Text:
    if line.startswith("@@"):
        return Text(line, style="cyan")
    return Text(line, style={"+": Style.GOOD, "-": Style.BAD}.get(line[:1], Style.DIM))


def _plan(entries: Sequence[ev.PlanEntry]) -> RenderableType:
    rows: list[Text] = []
    for step in entries:
        style = {"completed": Style.DIM, "in_progress": Style.USER}.get(step.status, Style.PLAIN)
        rows.append(Text(f"{CHECKBOXES.get(step.status, '☐')} {clean_line(step.content)}", style=style))
    return Group(*rows)


def _approval(block: ApprovalBlock) -> RenderableType:
    approval, resolved = block.approval, block.resolved
    if resolved is not None:
        text = resolution_text(resolved, approval.title)
        line = Text(f"? {text}", style=Style.GOOD if resolved.outcome.allows else Style.BAD)
    else:
        line = Text(f"? {one_line(describe_approval(approval)[0], 400)}", style=Style.ASK)
    if approval.kind is ApprovalKind.PLAN and approval.plan:
        return Group(Padding(markdown(approval.plan), (0, 0, 1, 2)), line)
    return line
