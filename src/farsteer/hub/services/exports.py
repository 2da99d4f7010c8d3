"""Exporting a session: what a person sees of it, as a stream that holds two pages of the log at a time."""

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
from urllib.parse import quote

import msgspec

from farsteer import __version__
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.clock import now_ms
from farsteer.core.events import Entry, TurnEndReason, decode_entry
from farsteer.core.wire import encode
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.rules.view import SessionRow, session_view
from farsteer.hub.store.base import LogPage, Store

ExportFormat = Literal["jsonl", "markdown"]

VERSION = 1
"""Of the JSONL's own format: what its first line and its entries mean."""
_PAGE = 500
_NAME_CHARS = 60
_MEDIA = {"jsonl": "application/x-ndjson", "markdown": "text/markdown; charset=utf-8"}
_SUFFIX = {"jsonl": "jsonl", "markdown": "md"}


@dataclass(frozen=True, slots=True)
class Export:
    """`chunks` raises NotFound if the session is deleted meanwhile: such an export is not whole."""

    media_type: str
    disposition: str
    chunks: AsyncGenerator[bytes]


class Exports:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def export(self, caller: Caller, session_id: str, kind: ExportFormat) -> Export:
        """The session as it is now; what it says from now on is not in it."""
        caller.require(Scope.READ)
        row = await self._store.get_session(caller.namespace, session_id)
        chunks = self._jsonl(row) if kind == "jsonl" else self._markdown(row)
        return Export(_MEDIA[kind], _disposition(row, _SUFFIX[kind]), chunks)

    async def pages(self, caller: Caller, session_id: str) -> AsyncGenerator[list[bytes]]:
        """The encoded entries of the session as it is now, oldest first."""
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
        yield encode(head) + b"\n"
        async for bodies in self._pages(row):
            yield b"".join(b"%b\n" % _one_line(body) for body in bodies)

    async def _markdown(self, row: SessionRow) -> AsyncGenerator[bytes]:
        transcript = MarkdownTranscript()
        yield transcript.head(session_view(row)).encode()

        def render(bodies: list[bytes]) -> bytes:
            return transcript.add(decode_entry(body) for body in bodies).encode()

        async for bodies in self._pages(row):
            # Comparing texts takes its time, and others have messages to send.
            yield await asyncio.to_thread(render, bodies)
        yield transcript.end().encode()

    async def _pages(self, row: SessionRow) -> AsyncGenerator[list[bytes]]:
        """While one page is used the next is read."""

        def read(after: int) -> asyncio.Task[LogPage]:
            page = self._store.read_page(row.namespace, row.id, limit=_PAGE, before=row.seq + 1, after=after)
            return asyncio.get_running_loop().create_task(page)

        reading = read(0)
        try:
            while (page := await reading).last_seq is not None:
                reading = read(page.last_seq)
                yield page.bodies
        finally:
            if not reading.cancel() and not reading.cancelled():
                # Who leaves early does not want to know how the next page went.
                reading.exception()


def _one_line(body: bytes) -> bytes:
    """A newline between two tokens is sound JSON, and would be two lines here."""
    return body.replace(b"\n", b" ") if b"\n" in body else body


def _disposition(row: SessionRow, suffix: str) -> str:
    """A name for the file that any system takes, and beside it one in the title's own letters."""
    title = "-".join(re.findall(r"\w+", row.state.title or ""))[:_NAME_CHARS].strip("-_")
    end = f"{row.id[:8]}.{suffix}"
    if title.isascii():
        return f'attachment; filename="{title or "session"}-{end}"'
    own = quote(f"{title}-{end}")
    return f"attachment; filename=\"session-{end}\"; filename*=UTF-8''{own}"


_MAX_OPEN = 100
_MAX_OPEN_CHARS = 4 * 1024 * 1024
"""Tools whose end has not been seen; the oldest is written down as it stands when there are more."""
_DIFF_LINES = 2000
"""A longer pair of texts is compared at its ends only: a good diff of it takes too long."""

_FOLD = re.compile(r"<(?=/?(?:details|summary)\b)", re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_TICKS = re.compile(r"`+")


class MarkdownTranscript:
    """Holds what is not finished yet, and no more."""

    def __init__(self) -> None:
        self._tools: OrderedDict[str, ev.ToolCall] = OrderedDict()
        self._tool_chars = 0
        self._asked: OrderedDict[str, str] = OrderedDict()
        self._messages = 0

    def head(self, session: SessionView) -> str:
        facts = [
            ("Agent", session.agent if session.model is None else f"{session.agent}, {session.model}"),
            ("Directory", code(session.directory)),
            ("Machine", code(session.machine_id)),
            ("Session", code(session.id)),
            ("Created", _time(session.created_at)),
            ("Last change", _time(session.updated_at)),
            ("Used", _usage(session)),
        ]
        lines = [f"- {name}: {value}" for name, value in facts if value]
        return f"# {_line(session.title or 'Session')}\n\n" + "\n".join(lines) + "\n"

    def add(self, entries: Iterable[Entry]) -> str:
        return "".join(f"\n{block}\n" for entry in entries for block in self._blocks(entry))

    def end(self) -> str:
        return "".join(f"\n{block}\n" for block in self._unfinished())

    def _blocks(self, entry: Entry) -> Iterator[str]:
        event = entry.content
        match event:
            case ev.UserMessage():
                self._messages += 1
                sender = "" if event.sent_from is None else f" · {_line(event.sent_from)}"
                yield f"## {self._messages} · {_time(entry.created_at)}{sender}"
                yield _quoted(event.text)
                for file in event.attachments:
                    yield f"*Attached: {code(file.name)} ({_line(file.mime_type)})*"
            case ev.AgentMessage():
                yield closed(event.text) + ("\n\n*(cut short)*" if event.partial else "")
            case ev.AgentThought():
                yield folded("Thought", event.text)
            case ev.ToolCall():
                yield from self._begin_tool(event)
            case ev.ToolCallUpdate():
                yield from self._update_tool(event)
            case ev.Plan():
                yield "\n".join(_step(step) for step in event.entries) or "*The plan is empty.*"
            case ev.ApprovalRequested():
                self._asked[event.approval.id] = event.approval.title
                if len(self._asked) > _MAX_OPEN:
                    self._asked.popitem(last=False)
            case ev.ApprovalResolved():
                yield self._resolved(event)
            case ev.TurnEnd():
                yield from self._unfinished()
                if event.reason is not TurnEndReason.END_TURN:
                    why = f": {_line(event.error)}" if event.error else ""
                    yield f"*The turn ended: {event.reason.value}{why}*"
            case ev.Notice():
                yield f"*{_line(event.level).capitalize()}: {_line(event.text)}*"
            case ev.Rewound():
                yield "*The conversation was rewound to here.*"
            case _:
                pass

    # -- tools

    def _begin_tool(self, call: ev.ToolCall) -> Iterator[str]:
        if call.status.final:
            yield _tool(call, None)
            return
        self._tools[call.tool_call_id] = call
        self._tool_chars += _size(call)
        while self._tools and (len(self._tools) > _MAX_OPEN or self._tool_chars > _MAX_OPEN_CHARS):
            yield self._close_tool(next(iter(self._tools)), None)

    def _update_tool(self, update: ev.ToolCallUpdate) -> Iterator[str]:
        call = self._tools.get(update.tool_call_id)
        if call is None:
            return  # it had its end, or was written down for want of room
        changed = msgspec.structs.replace(
            call,
            status=update.status or call.status,
            title=update.title or call.title,
            content=update.content or call.content,
        )
        self._tool_chars += _size(changed) - _size(call)
        self._tools[update.tool_call_id] = changed
        if changed.status.final:
            yield self._close_tool(update.tool_call_id, update.output)

    def _close_tool(self, id: str, output: object) -> str:
        call = self._tools.pop(id)
        self._tool_chars -= _size(call)
        return _tool(call, output)

    def _unfinished(self) -> Iterator[str]:
        for id in [*self._tools]:
            yield self._close_tool(id, None)
        for title in self._asked.values():
            yield f"*Asked: {_line(title)}, and not answered*"
        self._asked.clear()

    def _resolved(self, event: ev.ApprovalResolved) -> str:
        title = self._asked.pop(event.approval_id, "a person's answer")
        by = f" by {_line(event.by)}" if event.by else ""
        said = "; ".join(", ".join(chosen) for chosen in (event.answers or {}).values())
        words = [text for text in (said, event.message) if text]
        more = f" ({_line('; '.join(words))})" if words else ""
        return f"*Asked: {_line(title)}, {event.outcome.value.replace('_', ' ')}{by}{more}*"


def _tool(call: ev.ToolCall, output: object) -> str:
    parts = [f"**{_line(call.title)}** · {call.tool_kind.value} · {call.status.value.replace('_', ' ')}"]
    for block in call.content:
        if isinstance(block, ev.DiffBlock):
            parts.append(code(block.path))
            parts.append(fenced(diff(block.old_text or "", block.new_text), "diff"))
        elif block.text:
            parts.append(fenced(block.text))
    if not call.content and output not in (None, ""):
        parts.append(fenced(output) if isinstance(output, str) else fenced(encode(output).decode(), "json"))
    return "\n\n".join(parts)


def _size(call: ev.ToolCall) -> int:
    return sum(
        len(block.text)
        if isinstance(block, ev.TextBlock)
        else len(block.new_text) + len(block.old_text or "")
        for block in call.content
    )


def diff(old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) <= _DIFF_LINES:
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


def fenced(text: str, language: str = "") -> str:
    """The text in a fence that is longer than any run of backticks in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def code(text: str) -> str:
    text = _line(text)
    ticks = "`" * (_longest_run(text) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def folded(summary: str, text: str) -> str:
    inner = closed(_FOLD.sub("&lt;", text))
    return f"<details><summary>{summary}</summary>\n\n{inner}\n\n</details>"


def closed(text: str) -> str:
    """The text with its last fence closed: one that was cut short must not swallow what follows."""
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
    return max(map(len, _TICKS.findall(text)), default=0)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines() or [""])


def _line(text: str) -> str:
    return " ".join(text.split())


def _step(step: ev.PlanEntry) -> str:
    return f"- [{'x' if step.status == 'completed' else ' '}] {_line(step.content)}"


def _time(ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"


def _usage(session: SessionView) -> str:
    used = session.usage
    tokens = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
    if not tokens and not used.output_tokens:
        return ""
    cost = f", ${used.cost_usd:.2f}" if used.cost_usd else ""
    return f"{tokens:,} tokens in, {used.output_tokens:,} out{cost}"
