"""Deadlines of one session: each posts its mail unless it is cancelled first."""

from __future__ import annotations

import asyncio

from farsteer.runner.mailbox import Mail, Mailbox


class Timers:
    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self, key: str, seconds: float, mail: Mail) -> None:
        self.cancel(key)
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._ring, key, mail)

    def _ring(self, key: str, mail: Mail) -> None:
        del self._timers[key]
        self._mailbox.post(mail)

    def running(self, key: str) -> bool:
        return key in self._timers

    def cancel(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        for key in list(self._timers):
            self.cancel(key)
