"""Pre-warming: when the next process is started before it is needed. Nothing here is seen by a client."""

from __future__ import annotations

from farsteer.runner.mailbox import CoolDown, WarmUp
from farsteer.runner.timers import Timers

_KEY = "warm"
_KEEP = "cool"
_TRIES = 3


class Warmth:
    """One timer for everything that wants a fresh process, so that a burst of wishes starts one."""

    def __init__(self, timers: Timers, delay: float) -> None:
        self._timers = timers
        self._delay = delay
        self._failures = 0

    @property
    def hopeful(self) -> bool:
        return self._failures < _TRIES

    @property
    def armed(self) -> bool:
        return self._timers.running(_KEY)

    def arm(self) -> None:
        """Ask for a process when things have been quiet for a moment."""
        if self.hopeful:
            self._timers.start(_KEY, self._delay, WarmUp())

    def disarm(self) -> None:
        """A process is there or on its way; an old wish must not end it."""
        self._timers.cancel(_KEY)

    def keep(self, generation: int, seconds: float) -> None:
        """A process was started in advance; it is not kept for ever."""
        self._timers.start(_KEEP, seconds, CoolDown(generation))

    def failed(self) -> None:
        self._failures += 1
        self.arm()

    def forgive(self) -> None:
        """Something has changed that makes another try worth it."""
        self._failures = 0
