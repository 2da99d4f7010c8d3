"""How long an agent may be silent inside a turn.

The clock is the event loop's, which stands still while the machine sleeps. Waiting for a person is not silence, and a
tool that runs may be quiet for longer than an agent that thinks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from farsteer.core.events import SessionEvent, ToolCall, ToolCallUpdate
from farsteer.runner.mailbox import Silent
from farsteer.runner.timers import Timers

_KEY = "silence"


class Patience:
    """One timer per turn, wound anew when it rings early: hearing an agent costs a look at the clock."""

    def __init__(self, timers: Timers, silence: float, tool_silence: float) -> None:
        self._timers = timers
        self._silence = silence
        self._tool_silence = tool_silence
        self._tools: set[str] = set()
        self._heard = 0.0

    def begin(self, turn_id: str) -> None:
        self._tools.clear()
        self.heard()
        self._timers.start(_KEY, self._silence, Silent(turn_id))

    def end(self) -> None:
        self._timers.cancel(_KEY)

    def heard(self) -> None:
        self._heard = asyncio.get_running_loop().time()

    def note(self, event: SessionEvent) -> None:
        if isinstance(event, ToolCall | ToolCallUpdate) and event.status is not None:
            if event.status.final:
                self._tools.discard(event.tool_call_id)
            else:
                self._tools.add(event.tool_call_id)

    def exhausted(self, turn_id: str, approvals: Sequence[object]) -> float | None:
        """For how long there was silence, if that is too long; else the timer goes on."""
        if approvals:
            self.heard()
        allowed = self._tool_silence if self._tools else self._silence
        silent = asyncio.get_running_loop().time() - self._heard
        if silent >= allowed:
            return silent
        self._timers.start(_KEY, allowed - silent, Silent(turn_id))
        return None
