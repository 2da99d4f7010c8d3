"""An answer of the model in progress: text, thoughts and tool calls, streamed or whole."""

from __future__ import annotations

import re
from typing import Literal

from tests.support.model.dialects import Block, Dialect
from tests.support.model.http import Exchange
from tests.support.model.tools import Call

_CHUNKS = 64


class Answer:
    def __init__(self, exchange: Exchange, dialect: Dialect, *, stream: bool, delay: float = 0.0) -> None:
        self._exchange = exchange
        self._dialect = dialect
        self._stream = stream
        self._delay = delay
        self._blocks: list[Block] = []
        self._open: Block | None = None

    async def say(self, kind: Literal["text", "thought"], text: str) -> None:
        if self._open is None or self._open.kind != kind:
            await self._begin(Block(kind, len(self._blocks)))
        await self._feed(_pieces(text))

    async def search(self, query: str) -> None:
        await self._begin(Block("search", len(self._blocks), parts=[query]))

    async def call(self, call: Call) -> None:
        await self._begin(Block("call", len(self._blocks), call))
        middle = len(call.text) // 2
        await self._feed([call.text[:middle], call.text[middle:]])

    async def end(self) -> None:
        await self._close()
        if not self._stream:
            await self._exchange.json(200, self._dialect.whole(self._blocks))
            return
        opening = [] if self._exchange.streaming else self._dialect.begin()
        await self._exchange.events([*opening, *self._dialect.end(self._blocks)])
        await self._exchange.end()

    async def cut(self) -> None:
        """Stop without the end of the block, a stop reason or usage."""
        if not self._exchange.streaming:
            await self._exchange.events(self._dialect.begin())
        await self._exchange.end()

    async def fail(self, status: int) -> None:
        message = f"scripted {status}"
        if self._exchange.streaming:
            await self._exchange.events(self._dialect.fail(status, message))
            await self._exchange.end()
        else:
            await self._exchange.json(status, self._dialect.error(status, message))

    async def _begin(self, block: Block) -> None:
        await self._close()
        self._open = block
        self._blocks.append(block)
        if self._stream:
            opening = [] if self._exchange.streaming else self._dialect.begin()
            await self._exchange.events([*opening, *self._dialect.open(block)])

    async def _feed(self, pieces: list[str]) -> None:
        assert self._open is not None
        for piece in pieces:
            self._open.parts.append(piece)
            if self._stream:
                await self._exchange.events(self._dialect.delta(self._open, piece))
            if self._delay:
                await self._exchange.wait(None, self._delay)

    async def _close(self) -> None:
        block, self._open = self._open, None
        if block is not None and self._stream:
            await self._exchange.events(self._dialect.close(block))


def _pieces(text: str) -> list[str]:
    """Split a text into words, with a limit on their number: an echo may be megabytes long."""
    words = re.findall(r"\s*\S+\s*", text) or [text]
    size = -(-len(words) // _CHUNKS)
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]
