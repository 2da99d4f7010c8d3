"""How many agents run on this machine at a time, and how many start at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from farsteer.core.errors import QuotaExceeded

DEFAULT_LIVE_AGENTS = 2000
_START_SECONDS = 3.0
"""A start that takes longer than this no longer counts: an agent that hangs must not keep the others waiting."""
_WAITING_PREWARMED = 8
"""How many sessions wait to prewarm a process."""


class AgentPlaces:
    """The sessions of a runner that have a process. Shared by their launchers.

    A few agents start at a time, because a start keeps a core busy and a thousand at once would stop everything else.
    Those that a message waits for come first. Prewarmed ones use a part of the starts only.
    """

    def __init__(self, limit: int = DEFAULT_LIVE_AGENTS, starts: int | None = None) -> None:
        self._limit = limit
        self._taken: set[str] = set()
        self._max_starts = starts or max(4, 2 * (os.cpu_count() or 1))
        self._starting: set[object] = set()
        self._needed: dict[str, asyncio.Future[None]] = {}
        self._prewarmed: dict[str, asyncio.Future[None]] = {}

    @property
    def has_spare(self) -> bool:
        """Whether a process may be prewarmed.

        The last place is for one that is needed. And if many agents have died together, most start with their next
        message instead.
        """
        return len(self._taken) < self._limit - 1 and len(self._prewarmed) < _WAITING_PREWARMED

    def take(self, session_id: str) -> None:
        """Take the place of a session's one process. Raises QuotaExceeded if there is none left."""
        if session_id not in self._taken and len(self._taken) >= self._limit:
            raise QuotaExceeded(
                f"{self._limit} agents run on this machine, which is its limit: stop a session that is not needed,"
                " or raise `live_agents` in the machine's runner.toml",
                kind="live_agents", limit=self._limit, used=len(self._taken),
            )  # fmt: skip
        self._taken.add(session_id)

    def release(self, session_id: str) -> None:
        """The process is gone. Idempotent."""
        self._taken.discard(session_id)

    # -- starting

    @asynccontextmanager
    async def start(self, session_id: str, *, prewarmed: bool) -> AsyncGenerator[None]:
        """Wait until this session's process may start. The block is the start."""
        turn = asyncio.get_running_loop().create_future()
        waiting = self._prewarmed if prewarmed else self._needed
        waiting[session_id] = turn
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if self._needed.pop(session_id, None) is None and self._prewarmed.pop(session_id, None) is None:
                self._finish(turn)
            raise
        timer = asyncio.get_running_loop().call_later(_START_SECONDS, self._finish, turn)
        try:
            yield
        finally:
            timer.cancel()
            self._finish(turn)

    def hurry(self, session_id: str) -> None:
        """A message waits for this session's process, which was to be prewarmed."""
        turn = self._prewarmed.pop(session_id, None)
        if turn is not None:
            self._needed[session_id] = turn
            self._admit()

    def _admit(self) -> None:
        while self._needed and len(self._starting) < self._max_starts:
            self._begin(self._needed)
        while self._prewarmed and len(self._starting) < max(1, self._max_starts // 4):
            self._begin(self._prewarmed)

    def _begin(self, waiting: dict[str, asyncio.Future[None]]) -> None:
        turn = waiting.pop(next(iter(waiting)))
        self._starting.add(turn)
        if not turn.done():
            turn.set_result(None)

    def _finish(self, turn: object) -> None:
        self._starting.discard(turn)
        self._admit()
