"""Codex's stored conversations, read through a `codex app-server` of their own.

Codex keeps a conversation in several files once it was reverted or forked, with an index in a database. Pages of its
items are asked for, so that a conversation of any size is never in memory as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from farsteer.agents.codex import items, protocol
from farsteer.agents.codex.launch import INITIALIZE
from farsteer.agents.codex.thread_start import to_error
from farsteer.agents.process import AgentProcess, ProcessExit
from farsteer.agents.rpc import Response, RpcClient
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, SessionEvent, UserMessage
from farsteer.core.lines import Line, Oversized
from farsteer.core.session import StoredConversation
from farsteer.core.text import clean_line
from farsteer.core.wire import WireStruct

_TIMEOUT = 30.0
_THREADS, _ITEMS, _TURNS = 100, 50, 10
"""Sizes of pages. A page that does not fit into one line of the protocol is asked for in smaller ones."""
_TITLE_CHARS = 200
_SOURCES = ("cli", "vscode", "exec", "appServer")


class _Threads(WireStruct):
    data: list[protocol.Thread]
    next_cursor: str | None = None


class _Thread(WireStruct):
    thread: protocol.Thread


class _Turn(WireStruct):
    id: str
    items: list[msgspec.Raw] = []


class _Turns(WireStruct):
    data: list[_Turn]
    next_cursor: str | None = None


class _Entry(WireStruct):
    turn_id: str
    item: msgspec.Raw


class _Items(WireStruct):
    data: list[_Entry]
    next_cursor: str | None = None


class ThreadStore:
    """A process for a few requests. Use it as an async context manager."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._argv = argv
        self._environment = environment
        self._rpc = RpcClient("Codex", self._write, protocol.encode_request, to_error)

    async def __aenter__(self) -> Self:
        home = self._environment.get("HOME", "/")
        self._process = AgentProcess.start(
            self._argv,
            cwd=home,
            environment=self._environment,
            on_lines=self._handle_lines,
            on_exit=self._handle_exit,
        )
        try:
            await self._rpc.call("initialize", INITIALIZE, _TIMEOUT)
            await self._write(protocol.encode_notification("initialized"))
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def list(self, directory: str | None, limit: int) -> list[StoredConversation]:
        """Return up to `limit` conversations, newest first. Those of sub-agents are not listed."""
        found: list[StoredConversation] = []
        params: dict[str, Any] = {"sortKey": "updated_at", "modelProviders": [], "sourceKinds": [*_SOURCES]}
        if directory is not None:
            params["cwd"] = directory
        cursor: str | None = None
        while len(found) < limit:
            size = min(_THREADS, limit - len(found))
            page = await self._rpc.ask(
                "thread/list", {**params, "limit": size, "cursor": cursor}, _TIMEOUT, _Threads
            )
            found += [_conversation(thread) for thread in page.data if not thread.ephemeral]
            cursor = page.next_cursor
            if cursor is None or not page.data:
                break
        return found[:limit]

    async def read(self, thread_id: str) -> tuple[StoredConversation, list[SessionEvent]]:
        """Return a conversation as events. Raises AgentError `conversation_missing`."""
        thread = await self._thread(thread_id)
        events = [
            event
            async for turn_id, item in self._items(thread)
            for event in items.stored_events(item, turn_id)
        ]
        messages = sum(isinstance(event, UserMessage | AgentMessage) for event in events)
        return msgspec.structs.replace(_conversation(thread), messages=messages), events

    async def read_after(self, thread_id: str, item_id: str) -> list[SessionEvent]:
        """Return what follows an item, [] if the conversation does not have it. "" stands for its beginning."""
        events: list[SessionEvent] = []
        found = not item_id
        async for turn_id, item in self._items(await self._thread(thread_id)):
            if found:
                events += items.stored_events(item, turn_id)
            found = found or item.id == item_id
        return events

    async def _thread(self, thread_id: str) -> protocol.Thread:
        return (await self._rpc.ask("thread/read", {"threadId": thread_id}, _TIMEOUT, _Thread)).thread

    async def _items(self, thread: protocol.Thread) -> AsyncIterator[tuple[str, protocol.Item]]:
        """Yield the items that we know, each with its turn, in their order."""
        cursor: str | None = None
        while True:
            entries, cursor = await self._page(thread, cursor)
            for turn_id, raw in entries:
                item = protocol.decode_item(bytes(raw))
                if item is not None:
                    yield turn_id, item
            if cursor is None:
                return

    async def _page(
        self, thread: protocol.Thread, cursor: str | None
    ) -> tuple[list[tuple[str, msgspec.Raw]], str | None]:
        """Return some items, each with its turn, and the cursor of the next page."""
        size = _ITEMS if thread.history_mode == "paginated" else _TURNS
        while True:
            try:
                return await self._page_of(thread, cursor, size)
            except AgentError as error:
                if error.code is not ErrorCode.TOO_LARGE or size == 1:
                    raise
                size = max(size // 4, 1)

    async def _page_of(
        self, thread: protocol.Thread, cursor: str | None, size: int
    ) -> tuple[list[tuple[str, msgspec.Raw]], str | None]:
        params: dict[str, Any] = {
            "threadId": thread.id, "sortDirection": "asc", "cursor": cursor, "limit": size,
        }  # fmt: skip
        if thread.history_mode == "paginated":
            items_page = await self._rpc.ask("thread/items/list", params, _TIMEOUT, _Items)
            entries = [(entry.turn_id, entry.item) for entry in items_page.data]
            return entries, items_page.next_cursor if entries else None
        # Threads of older versions are paged by turns only.
        turns = await self._rpc.ask("thread/turns/list", {**params, "itemsView": "full"}, _TIMEOUT, _Turns)
        entries = [(turn.id, item) for turn in turns.data for item in turn.items]
        return entries, turns.next_cursor if turns.data else None

    async def delete(self, thread_id: str) -> None:
        try:
            await self._rpc.call("thread/delete", {"threadId": thread_id}, _TIMEOUT)
        except AgentError as error:
            if error.code is not ErrorCode.CONVERSATION_MISSING:
                raise

    async def _handle_lines(self, lines: list[Line]) -> None:
        for line in lines:
            if isinstance(line, Oversized):
                message = f"Codex wrote a line of {line.size} bytes ({line.reason})"
                self._rpc.fail(AgentError(message, code=ErrorCode.TOO_LARGE))
                continue
            message = protocol.decode_line(line)
            if isinstance(message, Response):
                self._rpc.handle_response(message)

    async def _handle_exit(self, ended: ProcessExit) -> None:
        self._rpc.close(
            AgentError(f"Codex ended: {ended.reason}", code=ErrorCode.AGENT_DIED, stderr=ended.stderr)
        )

    async def _write(self, line: bytes) -> None:
        await self._process.write(line)

    async def _stop(self) -> None:
        await asyncio.shield(self._process.stop())
        await self._process.wait()


def _conversation(thread: protocol.Thread) -> StoredConversation:
    return StoredConversation(
        native_id=thread.id, agent="codex", directory=thread.cwd, updated_at=thread.updated_at * 1000,
        title=clean_line(thread.name or thread.preview, _TITLE_CHARS) or None,
    )  # fmt: skip
