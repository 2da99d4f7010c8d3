"""Timers of one session. Each posts a message to the session's mailbox when it fires."""

from __future__ import annotations

import asyncio

from farsteer.core.events import SessionEvent, ToolCall, ToolCallUpdate
from farsteer.runner.session.mailbox import Mail, Mailbox, PrewarmDue, PrewarmExpired, SilenceCheckDue

_PREWARM = "prewarm"
_PREWARM_EXPIRY = "prewarm-expiry"
_SILENCE = "silence"
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


class SilenceTimeout:
    """Detects an agent that writes no output within a turn for too long.

    Time during which an approval is open does not count. While a tool runs the longer limit applies. The clock is the
    event loop's, which does not advance while the machine sleeps. There is one timer per turn, restarted when it fires
    too early, so that a batch of output costs one reading of the clock and no timer.
    """

    def __init__(self, timers: Timers, limit: float, tool_limit: float) -> None:
        self._timers = timers
        self._limit = limit
        self._tool_limit = tool_limit
        self._running_tools: set[str] = set()
        self._last_output = 0.0

    def start(self, turn_id: str) -> None:
        self._running_tools.clear()
        self.reset()
        self._timers.start(_SILENCE, self._limit, SilenceCheckDue(turn_id))

    def stop(self) -> None:
        self._timers.cancel(_SILENCE)

    def reset(self) -> None:
        """Count from now: the agent has written output."""
        self._last_output = asyncio.get_running_loop().time()

    def track_tool(self, event: SessionEvent) -> None:
        """Note which tools are running."""
        if isinstance(event, ToolCall | ToolCallUpdate) and event.status is not None:
            if event.status.final:
                self._running_tools.discard(event.tool_call_id)
            else:
                self._running_tools.add(event.tool_call_id)

    def check(self, turn_id: str, *, waits_for_person: bool) -> float | None:
        """Return the length of the silence if it is over the limit; otherwise restart the timer and return None."""
        if waits_for_person:
            self.reset()
        limit = self._tool_limit if self._running_tools else self._limit
        silence = asyncio.get_running_loop().time() - self._last_output
        if silence >= limit:
            return silence
        self._timers.start(_SILENCE, limit - silence, SilenceCheckDue(turn_id))
        return None
