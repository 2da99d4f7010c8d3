"""Timers of a launch: for messages without an end, and for turns without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SETTLE_SECONDS = 1.0
SILENCE_SECONDS = 90.0


class TurnWatch:
    """The timers.

    Args:
        settle: Called when a message that arrives between turns has stopped growing.
        tell_silence: Called in a long silence with its seconds. Returns False if it wants to be called again later.
    """

    def __init__(self, settle: Callable[[], None], tell_silence: Callable[[float], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._settle = settle
        self._tell_silence = tell_silence
        self._last_line = self._loop.time()
        self._settling: asyncio.TimerHandle | None = None
        self._silence: asyncio.TimerHandle | None = None

    def touch(self) -> None:
        """The agent has written something."""
        self._last_line = self._loop.time()

    def begin_turn(self) -> None:
        self.touch()
        self.end_turn()
        self._silence = self._loop.call_later(SILENCE_SECONDS, self._check_silence)

    def end_turn(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def settle_later(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
        self._settling = self._loop.call_later(SETTLE_SECONDS, self._settle)

    def close(self) -> None:
        self.end_turn()
        if self._settling is not None:
            self._settling.cancel()

    def _check_silence(self) -> None:
        silent = self._loop.time() - self._last_line
        if silent >= SILENCE_SECONDS and self._tell_silence(silent):
            self._silence = None
            return
        # A tool or a person may take their time: that is looked at again after as long.
        left = SILENCE_SECONDS - silent if silent < SILENCE_SECONDS else SILENCE_SECONDS
        self._silence = self._loop.call_later(left, self._check_silence)
