"""The size of a run: full in under ten minutes, or quick in under two."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    burst: dict[int, int]
    """Messages of a burst by number of subscribers: the same work for every peer, seconds for the slowest."""
    paced_rounds: int
    paced_seconds: float
    history: int
    """Messages of the long session."""
    flood: int
    """Events of a flooding Droid."""
    starts: int
    sessions: int
    first_messages: int
    """How often a first message is sent."""
    words: int
    """Words that a real agent streams."""
    agent_sessions: int
    """Sessions of a real agent that live at the same time. Each has a process of some 200 MB."""
    opened: int
    """Messages of the session that is opened."""
    live: int
    """Sessions that live at the same time."""
    initializations: int
    """How often the time to `initialize` is measured."""
    replayed: int
    """Updates of the session that an editor loads."""
    chunk_seconds: float

    @property
    def label(self) -> str:
        return "full" if self is FULL else "quick"


RATE = 100.0
"""Messages per second of a paced run."""
WARM_UP = 500
RUN_SECONDS = 60.0
"""The maximum duration of a run. Missing messages are reported."""

FULL = Scale(
    rounds=5,
    burst={1: 8000, 10: 4000, 50: 2000, 200: 1000},
    paced_rounds=5,
    paced_seconds=4.0,
    history=1_000_000,
    flood=300_000,
    starts=7,
    sessions=50,
    first_messages=11,
    words=500,
    agent_sessions=20,
    opened=100_000,
    live=200,
    initializations=15,
    replayed=50_000,
    chunk_seconds=20.0,
)
QUICK = Scale(
    rounds=1,
    burst={1: 3000, 10: 2000, 50: 1000, 200: 300},
    paced_rounds=1,
    paced_seconds=2.0,
    history=100_000,
    flood=50_000,
    starts=3,
    sessions=20,
    first_messages=3,
    words=200,
    agent_sessions=5,
    opened=20_000,
    live=30,
    initializations=5,
    replayed=50_000,
    chunk_seconds=5.0,
)
