"""What Farsteer and HAPI add to a real CLI: on the same scripted model, in turn with driving the CLI directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from bench import measure
from bench.agents.cli import CLIS, Cli, scripted_model
from bench.agents.direct import Direct
from bench.agents.driver import Driver, Warm
from bench.agents.through_farsteer import ThroughFarsteer
from bench.agents.through_hapi import ThroughHapi
from bench.history import Timing
from bench.peers.base import Unavailable
from bench.progress import say
from bench.scale import Scale

MESSAGES = 5
"""Short messages to an agent that has answered before, in each round."""
HAPI_SESSIONS = 3
"""Fewer sessions than Farsteer's tell the memory of one, because each is a process of its own."""
HAPI_WORDS = 50
"""Fewer words than the others stream tell whether HAPI streams."""
STREAMS = 0.5
"""Words come one by one if there are more pieces per word than this. Farsteer merges some for a slow client."""

OURS, PEER, DIRECT, SAME_FLAGS = "Farsteer", "HAPI", "directly", "directly, with Farsteer's flags"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds, medians of all rounds. None: not measured, or there is no such thing."""

    first_text: float
    """From the start of an agent with a prompt to the first text of its answer.

    The start is the request that creates a session, or the start of the CLI's process.
    """
    first_message: float | None = None
    """From sending the first message to an agent that waits for it, to the sender's hearing of its confirmation."""
    warm_text: float | None = None
    """From sending a later message to the first text."""
    words: Timing | None = None
    """From the model's writing a word to a client's reading it. None if words do not come one by one."""
    pieces: float | None = None
    """Pieces of text per word. HAPI's are whole blocks."""
    session_mb: float | None = None
    """What a session costs besides its agent, when it rests after its first turn."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """One CLI, driven in several ways."""

    version: str
    ours: Figures
    direct: Figures
    """With the flags that every driver needs."""
    same_flags: Figures
    """With Farsteer's flags, hooks and requests: only the time to the first text."""
    hapi: Figures | None = None
    hapi_failure: str = ""
    """Why HAPI was not measured, if it was wanted."""


def measure_overhead(size: Scale, *, with_hapi: bool) -> dict[str, Overhead]:
    found: dict[str, Overhead] = {}
    for cli in CLIS:
        cli.program()
        with scripted_model() as url:
            found[cli.name] = _measure(cli, url, size, with_hapi=with_hapi)
    return found


def _measure(cli: Cli, url: str, size: Scale, *, with_hapi: bool) -> Overhead:
    with ExitStack() as running:
        ours = running.enter_context(ThroughFarsteer(cli, url))
        # Before anything else: memory that earlier sessions have used and freed would hide what these cost.
        memory = {OURS: ours.session_mb(size.agent_sessions)}
        field = Field({
            OURS: ours,
            DIRECT: running.enter_context(Direct(cli, url)),
            SAME_FLAGS: running.enter_context(Direct(cli, url, like_farsteer=True)),
        })  # fmt: skip
        if with_hapi:
            try:
                hapi = running.enter_context(ThroughHapi(cli, url))
                memory[PEER] = hapi.session_mb(min(HAPI_SESSIONS, size.agent_sessions))
                field.drivers[PEER] = hapi
            except Unavailable as error:
                field.failures[PEER] = str(error)
        # The first of each kind warms the caches of the machine.
        field.in_turn(1, lambda _, driver: driver.first_text())
        first_texts = field.in_turn(size.first_messages, lambda _, driver: driver.first_text())
        first_messages = field.in_turn(
            size.first_messages, lambda _, driver: driver.first_message(), without=(PEER, SAME_FLAGS)
        )
        words = {way: HAPI_WORDS if way == PEER else size.words for way in field.drivers}
        warm = field.in_turn(
            size.rounds, lambda way, driver: driver.warm(MESSAGES, words[way]), without=(SAME_FLAGS,)
        )
    figures = {
        way: summarize(
            first_texts[way], first_messages.get(way, []), warm.get(way, []), words[way], memory.get(way)
        )
        for way in field.drivers
    }
    for way, one in figures.items():
        say(f"{cli.name}, {way}: first text after {one.first_text:.0f} ms")
    failure = field.failures.get(PEER, "")
    return Overhead(
        cli.pin.version, figures[OURS], figures[DIRECT], figures[SAME_FLAGS], figures.get(PEER), failure
    )


class Field:
    """The ways to drive a CLI that are measured side by side."""

    def __init__(self, drivers: dict[str, Driver]) -> None:
        self.drivers = drivers
        self.failures: dict[str, str] = {}
        """Ways that could not be measured, and why."""

    def in_turn(
        self, rounds: int, take: Callable[[str, Driver], T], without: Sequence[str] = ()
    ) -> dict[str, list[T]]:
        """Measure each driver once in each round. Another one begins in each round.

        One that is unavailable leaves the field.
        """
        taken: dict[str, list[T]] = {way: [] for way in self.drivers if way not in without}
        for number in range(rounds):
            ways = [way for way in taken if way in self.drivers]
            begin = number % len(ways)
            for way in (*ways[begin:], *ways[:begin]):
                try:
                    taken[way].append(take(way, self.drivers[way]))
                except Unavailable as error:
                    self.failures[way] = str(error)
                    del self.drivers[way]
        return {way: values for way, values in taken.items() if way in self.drivers}


def summarize(
    first_texts: Sequence[float], first_messages: Sequence[float | None], warm: Sequence[Warm], words: int,
    session_mb: float | None,
) -> Figures:  # fmt: skip
    """Return the medians of all rounds."""
    confirmed = [one for one in first_messages if one is not None]
    pieces = measure.median([one.pieces / words for one in warm]) if warm else None
    streams = pieces is not None and pieces >= STREAMS
    return Figures(
        first_text=measure.median(first_texts),
        first_message=measure.median(confirmed) if confirmed else None,
        warm_text=measure.median([text for one in warm for text in one.texts]) if warm else None,
        words=_median([one.words for one in warm]) if streams else None,
        pieces=pieces,
        session_mb=session_mb,
    )


def _median(timings: Sequence[Timing]) -> Timing:
    return Timing(measure.median([one.p50 for one in timings]), measure.median([one.p99 for one in timings]))
