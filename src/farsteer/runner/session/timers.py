"""Timers of one session. Each posts a message to the session's mailbox when it fires."""

from __future__ import annotations

import asyncio

from farsteer.runner.session.mailbox import Mail, Mailbox, PrewarmDue, PrewarmExpired

_PREWARM = "prewarm"
_PREWARM_EXPIRY = "prewarm-expiry"
_MAX_FAILURES = 3


class Timers:
    """Named timers. Starting one that runs restarts it."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self, key: str, seconds: float, mail: Mail) -> None:
        """Post `mail` after `seconds` unless the timer is cancelled or restarted before."""
        self.cancel(key)
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._fire, key, mail)

    def _fire(self, key: str, mail: Mail) -> None:
        del self._timers[key]
        self._mailbox.post(mail)

    def is_running(self, key: str) -> bool:
        return key in self._timers

    def cancel(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        for key in list(self._timers):
            self.cancel(key)


class PrewarmTimer:
    """Decides when a process is started before it is needed, and for how long it is kept.

    One timer debounces all requests for a new process. After three failed starts in a row it is no longer armed, until
    `reset_failures` is called.
    """

    def __init__(self, timers: Timers, delay: float) -> None:
        self._timers = timers
        self._delay = delay
        self._failures = 0

    @property
    def has_given_up(self) -> bool:
        return self._failures >= _MAX_FAILURES

    @property
    def is_armed(self) -> bool:
        return self._timers.is_running(_PREWARM)

    def arm(self) -> None:
        """Post `PrewarmDue` after the delay; restarts the delay if it is running."""
        if not self.has_given_up:
            self._timers.start(_PREWARM, self._delay, PrewarmDue())

    def disarm(self) -> None:
        """Drop an earlier request: a process exists or is being started."""
        self._timers.cancel(_PREWARM)

    def expire_after(self, generation: int, seconds: float) -> None:
        """Post `PrewarmExpired` for a process that was started in advance."""
        self._timers.start(_PREWARM_EXPIRY, seconds, PrewarmExpired(generation))

    def count_failure(self) -> None:
        self._failures += 1
        self.arm()

    def reset_failures(self) -> None:
        self._failures = 0
