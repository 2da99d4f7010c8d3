"""Exporting a session: what a person sees of it, as a stream that holds two pages of the log at a time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from farsteer import __version__
from farsteer.core.clock import now_ms
from farsteer.core.events import decode_entry
from farsteer.core.wire import encode
from farsteer.hub.caller import Caller, Scope
from farsteer.hub.store.base import LogPage, Store
from farsteer.hub.transcript import Transcript
from farsteer.hub.view import SessionRow, session_view

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
        row = await self._store.session(caller.namespace, session_id)
        chunks = self._jsonl(row) if kind == "jsonl" else self._markdown(row)
        return Export(_MEDIA[kind], _disposition(row, _SUFFIX[kind]), chunks)

    async def pages(self, caller: Caller, session_id: str) -> AsyncGenerator[list[bytes]]:
        """The encoded entries of the session as it is now, oldest first."""
        caller.require(Scope.READ)
        row = await self._store.session(caller.namespace, session_id)
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
        transcript = Transcript()
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
            page = self._store.page(row.namespace, row.id, limit=_PAGE, before=row.seq + 1, after=after)
            return asyncio.get_running_loop().create_task(page)

        reading = read(0)
        try:
            while (page := await reading).last is not None:
                reading = read(page.last)
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
