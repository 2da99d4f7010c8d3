"""Exports: a session as a JSONL or Markdown file, streamed page by page.

Texts in a log come from people and agents and may contain anything. In the Markdown form none of them can close a code
fence or a fold that is not its own, and control characters are removed; in the JSONL form they are escaped.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import unified_diff
from typing import Literal

import msgspec

from farsteer import __version__
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.clock import now_ms
from farsteer.core.events import Entry, TurnEndReason, decode_entry
from farsteer.core.identity import describe
from farsteer.core.text import clean, clean_line, escape_json
from farsteer.core.wire import encode
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.rules.view import SessionRow, session_view
from farsteer.hub.store.base import LogPage, Store

ExportFormat = Literal["jsonl", "markdown"]

VERSION = 1
"""The version of the JSONL format: the fields of its first line and the form of its entries."""
_PAGE_SIZE = 500
_MAX_TITLE_CHARS = 60
_MAX_LINE_CHARS = 10_000
_SUFFIXES: dict[ExportFormat, str] = {"jsonl": "jsonl", "markdown": "md"}

_MAX_OPEN = 100
_MAX_OPEN_CHARS = 4 * 1024 * 1024
"""How many tool calls and approvals may be open, and the text of the tool calls. Above it the oldest is written."""
_MAX_DIFF_LINES = 2000
"""A longer pair of texts is compared at its ends only, because a full diff takes too long."""

_FOLD_TAG = re.compile(r"<(?=/?(?:details|summary)\b)", re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_BACKTICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Export:
    filename: str
    """Made from the session's title."""
    ascii_filename: str
    """Equal to `filename` if that is ASCII, else a name without the title."""
    chunks: AsyncGenerator[bytes]
    """The file. Raises NotFound if the session is deleted meanwhile; the export is then incomplete."""


class Exports:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def export(self, caller: Caller, session_id: str, kind: ExportFormat) -> Export:
        """Return the visible log as it is now. Later entries are not part of it."""
        caller.require(Scope.READ)
        row = await self._store.get_session(caller.namespace, session_id)
        chunks = self._jsonl(row) if kind == "jsonl" else self._markdown(row)
        title = "-".join(re.findall(r"\w+", row.state.title or ""))[:_MAX_TITLE_CHARS].strip("-_")
        end = f"{row.id[:8]}.{_SUFFIXES[kind]}"
        filename = f"{title or 'session'}-{end}"
        return Export(filename, filename if title.isascii() else f"session-{end}", chunks)

    async def pages(self, caller: Caller, session_id: str) -> AsyncGenerator[list[bytes]]:
        """Yield the encoded entries of the log as it is now, oldest first."""
        caller.require(Scope.READ)
        row = await self._store.get_session(caller.namespace, session_id)
        async with aclosing(self._pages(row)) as pages:
            async for bodies in pages:
                yield bodies

    async def _jsonl(self, row: SessionRow) -> AsyncGenerator[bytes]:
        head = {
            "format": "farsteer-session",
            "version": VERSION,
            "farsteer": __version__,
            "exportedAt": now_ms(),
            "session": session_view(row),
        }
        yield _json_line(encode(head))
        async for bodies in self._pages(row):
            yield b"".join(map(_json_line, bodies))

    async def _markdown(self, row: SessionRow) -> AsyncGenerator[bytes]:
        transcript = MarkdownTranscript()
        yield transcript.render_head(session_view(row)).encode()

        def render(bodies: list[bytes]) -> bytes:
            return transcript.render(decode_entry(body) for body in bodies).encode()

        async for bodies in self._pages(row):
            # In a thread, because diffs are slow and would block the event loop.
            yield await asyncio.to_thread(render, bodies)
        yield transcript.render_end().encode()

    async def _pages(self, row: SessionRow) -> AsyncGenerator[list[bytes]]:
        """Yield the pages of the log. The next page is read while one is used."""

        def read(after: int) -> asyncio.Task[LogPage]:
            page = self._store.read_page(
                row.namespace, row.id, limit=_PAGE_SIZE, before=row.seq + 1, after=after
            )
            return asyncio.get_running_loop().create_task(page)

        reading = read(0)
        try:
            while (page := await reading).last_seq is not None:
                reading = read(page.last_seq)
                yield page.bodies
        finally:
            if not reading.cancel() and not reading.cancelled():
                # The reader left early; retrieve the error of the unused page so that asyncio does not log it.
                reading.exception()


def _json_line(body: bytes) -> bytes:
    """Return encoded JSON as one line that can be shown in a terminal."""
    # JSON allows newlines between tokens; JSONL does not.
    return escape_json(body.replace(b"\n", b" ").decode()).encode() + b"\n"


class MarkdownTranscript:
    """Renders a log as Markdown, entry by entry. Keeps only unfinished tool calls and open approvals."""

    def __init__(self) -> None:
        self._tools: OrderedDict[str, ev.ToolCall] = OrderedDict()
        self._tool_chars = 0
        self._open_approvals: OrderedDict[str, str] = OrderedDict()
        self._messages = 0

    def render_head(self, session: SessionView) -> str:
        """Return the title and the facts about the session."""
        facts = [
            ("Agent", _single_line(", ".join(filter(None, (session.agent, session.model))))),
            ("Directory", code_span(session.directory)),
            ("Machine", code_span(session.machine_id)),
            ("Session", code_span(session.id)),
            ("Created", _format_time(session.created_at)),
            ("Last change", _format_time(session.updated_at)),
            ("Used", _format_usage(session)),
        ]
        lines = [f"- {name}: {value}" for name, value in facts if value]
        return f"# {_single_line(session.title or 'Session')}\n\n" + "\n".join(lines) + "\n"

    def render(self, entries: Iterable[Entry]) -> str:
        """Return the next part of the conversation."""
        return "".join(f"\n{block}\n" for entry in entries for block in self._render(entry))

    def render_end(self) -> str:
        """Return what was still open at the end of the log."""
        return "".join(f"\n{block}\n" for block in self._render_unfinished())

    def _render(self, entry: Entry) -> Iterator[str]:
        event = entry.content
        match event:
            case ev.UserMessage():
                self._messages += 1
                who = describe(event.sent_from, event.identity)
                sender = f" · {_single_line(who)}" if who else ""
                yield f"## {self._messages} · {_format_time(entry.created_at)}{sender}"
                yield _quote(event.text)
                for file in event.attachments:
                    yield f"*Attached: {code_span(file.name)} ({_single_line(file.mime_type)})*"
            case ev.AgentMessage() if event.parent_tool_call_id is not None:
                yield fold("Sub-agent", event.text)
            case ev.AgentMessage():
                yield close_fences(event.text) + ("\n\n*(cut short)*" if event.partial else "")
            case ev.AgentThought():
                yield fold("Thought", event.text)
            case ev.ToolCall():
                yield from self._begin_tool(event)
            case ev.ToolCallUpdate():
                yield from self._update_tool(event)
            case ev.Plan():
                yield "\n".join(_plan_step(step) for step in event.entries) or "*The plan is empty.*"
            case ev.ApprovalRequested():
                self._open_approvals[event.approval.id] = event.approval.title
                if len(self._open_approvals) > _MAX_OPEN:
                    self._open_approvals.popitem(last=False)
            case ev.ApprovalResolved():
                yield self._render_resolved(event)
            case ev.TurnEnd():
                yield from self._render_unfinished()
                if event.reason is not TurnEndReason.END_TURN:
                    why = f": {_single_line(event.error)}" if event.error else ""
                    yield f"*The turn ended: {event.reason.value}{why}*"
            case ev.Notice():
                yield f"*{_single_line(event.level).capitalize()}: {_single_line(event.text)}*"
            case ev.Compacted():
                yield "*The agent has summarised the beginning of its context.*"
            case ev.Rewound():
                yield "*The conversation was rewound to here.*"
            case _:
                pass

    def _begin_tool(self, call: ev.ToolCall) -> Iterator[str]:
        if call.status.final:
            yield _render_tool(call, None)
            return
        self._tools[call.tool_call_id] = call
        self._tool_chars += _text_size(call)
        while self._tools and (len(self._tools) > _MAX_OPEN or self._tool_chars > _MAX_OPEN_CHARS):
            yield self._close_tool(next(iter(self._tools)), None)

    def _update_tool(self, update: ev.ToolCallUpdate) -> Iterator[str]:
        call = self._tools.get(update.tool_call_id)
        if call is None:
            return  # It has ended, or was written early because too many were open.
        changed = msgspec.structs.replace(
            call,
            status=update.status or call.status,
            title=update.title or call.title,
            content=update.content or call.content,
        )
        self._tool_chars += _text_size(changed) - _text_size(call)
        self._tools[update.tool_call_id] = changed
        if changed.status.final:
            yield self._close_tool(update.tool_call_id, update.output)

    def _close_tool(self, id: str, output: object) -> str:
        call = self._tools.pop(id)
        self._tool_chars -= _text_size(call)
        return _render_tool(call, output)

    def _render_unfinished(self) -> Iterator[str]:
        for id in [*self._tools]:
            yield self._close_tool(id, None)
        for title in self._open_approvals.values():
            yield f"*Asked: {_single_line(title)}, and not answered*"
        self._open_approvals.clear()

    def _render_resolved(self, event: ev.ApprovalResolved) -> str:
        title = self._open_approvals.pop(event.approval_id, "a person's answer")
        who = describe(event.by, event.identity)
        by = f" by {_single_line(who)}" if who else ""
        chosen = "; ".join(", ".join(options) for options in (event.answers or {}).values())
        words = [text for text in (chosen, event.message) if text]
        more = f" ({_single_line('; '.join(words))})" if words else ""
        return f"*Asked: {_single_line(title)}, {event.outcome.value.replace('_', ' ')}{by}{more}*"


def _render_tool(call: ev.ToolCall, output: object) -> str:
    parts = [
        f"**{_single_line(call.title)}** · {call.tool_kind.value} · {call.status.value.replace('_', ' ')}"
    ]
    for block in call.content:
        if isinstance(block, ev.DiffBlock):
            parts.append(code_span(block.path))
            parts.append(code_block(diff(block.old_text or "", block.new_text), "diff"))
        elif block.text:
            parts.append(code_block(block.text))
    if not call.content and output not in (None, ""):
        parts.append(
            code_block(output) if isinstance(output, str) else code_block(encode(output).decode(), "json")
        )
    return "\n\n".join(parts)


def _text_size(call: ev.ToolCall) -> int:
    return sum(
        len(block.text)
        if isinstance(block, ev.TextBlock)
        else len(block.new_text) + len(block.old_text or "")
        for block in call.content
    )


def diff(old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) <= _MAX_DIFF_LINES:
        return "\n".join([*unified_diff(before, after, lineterm="")][2:])
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    place = f"@@ -{head + 1},{len(removed)} +{head + 1},{len(added)} @@"
    return "\n".join([place, *(f"-{line}" for line in removed), *(f"+{line}" for line in added)])


def code_block(text: str, language: str = "") -> str:
    """Return the text in a fence that is longer than any run of backticks in it."""
    text = clean(text)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def code_span(text: str) -> str:
    text = _single_line(text)
    ticks = "`" * (_longest_run(text) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def fold(summary: str, text: str) -> str:
    inner = close_fences(_FOLD_TAG.sub("&lt;", clean(text)))
    return f"<details><summary>{summary}</summary>\n\n{inner}\n\n</details>"


def close_fences(text: str) -> str:
    """Return the text with its last fence closed, so that an incomplete text does not include what follows it."""
    text = clean(text)
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if found is None:
            continue
        marks, rest = found[1], found[2]
        if not fence:
            fence = "" if marks[0] == "`" and "`" in rest else marks
        elif marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip():
            fence = ""
    return f"{text.rstrip()}\n{fence}" if fence else text.rstrip()


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in clean(text).splitlines() or [""])


def _single_line(text: str) -> str:
    return clean_line(text, _MAX_LINE_CHARS)


def _plan_step(step: ev.PlanEntry) -> str:
    return f"- [{'x' if step.status == 'completed' else ' '}] {_single_line(step.content)}"


def _format_time(ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"


def _format_usage(session: SessionView) -> str:
    used = session.usage
    tokens = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
    if not tokens and not used.output_tokens:
        return ""
    cost = f", ${used.cost_usd:.2f}" if used.cost_usd else ""
    return f"{tokens:,} tokens in, {used.output_tokens:,} out{cost}"
