"""What every way to drive a CLI can do: directly, through Farsteer and through HAPI."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from bench.history import Timing, timing

HELLO = "[[say:hello]]"
SETTLE = 0.5
"""Seconds after which an agent has finished what it does by itself after its start."""
PAUSE = 0.2
"""Seconds after which an agent has finished what it does by itself after a turn."""
DEADLINE = 60.0

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Answered:
    """Milliseconds from the moment a message was sent."""

    first_text: float
    confirmed: float | None
    """When the agent confirmed the message. None if this is not told."""


class Conversation(ABC):
    """An agent that has been started and takes messages."""

    @abstractmethod
    def ask(self, text: str, on_text: OnText = lambda _: None) -> Answered:
        """Send a message, pass on each piece of the answer and return at the end of the turn."""

    @abstractmethod
    def close(self) -> None:
        """End the agent. Return when its process is gone."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Driver(ABC):
    """Starts conversations with one agent, in a home of its own that stays from one to the next."""

    @abstractmethod
    def open(self) -> Conversation:
        """Start an agent and return when it takes a message."""

    def first_text(self) -> float:
        """Return the milliseconds from the start of an agent to the first text of its answer to a prompt."""
        begin = time.perf_counter()
        with self.open() as conversation:
            opened = (time.perf_counter() - begin) * 1000
            return opened + conversation.ask(HELLO).first_text

    def first_message(self) -> float | None:
        """Return the milliseconds from sending to the agent's confirmation, of the first message to one that waits."""
        with self.open() as conversation:
            time.sleep(SETTLE)
            return conversation.ask(HELLO).confirmed

    def warm(self, messages: int, words: int) -> Warm:
        """Let an agent that has answered before answer short messages, and then stream words."""
        with self.open() as conversation:
            conversation.ask(HELLO)
            texts: list[float] = []
            for _ in range(messages):
                time.sleep(PAUSE)
                texts.append(conversation.ask(HELLO).first_text)
            clock = WordClock()
            time.sleep(PAUSE)
            conversation.ask(f"[[clock:{words}:0.01]]", clock.hear)
        return Warm(texts, clock.timing(words), clock.pieces)

    def session_mb(self, sessions: int) -> float:
        """Return the MB that a session costs besides its agent, when it rests after its first turn."""
        with ExitStack() as running:
            running.enter_context(self.open()).ask(HELLO)
            before = self.memory()
            for _ in range(sessions):
                running.enter_context(self.open()).ask(HELLO)
            time.sleep(SETTLE)
            return (self.memory() - before) / sessions

    def memory(self) -> float:
        """Return the MB of all processes besides agents."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Warm:
    texts: list[float]
    """Milliseconds from a message to the first text of its answer."""
    words: Timing
    """How old each word was."""
    pieces: int
    """In how many pieces the words came."""


class WordClock:
    """How old each word is when it is heard. A word is the time at which the model wrote it."""

    def __init__(self) -> None:
        self.pieces = 0
        self._ages: list[float] = []
        self._rest = ""

    def hear(self, text: str) -> None:
        now = time.monotonic_ns()
        self.pieces += bool(text)
        *whole, self._rest = (self._rest + text).split(" ")
        self._ages += [(now - int(word)) / 1e6 for word in whole]

    def timing(self, words: int) -> Timing:
        if len(self._ages) != words:
            raise RuntimeError(f"{len(self._ages)} of {words} words arrived")
        return timing(self._ages)


class Stopwatch:
    """The first text of an answer and the confirmation of its message."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._first_text: float | None = None
        self._confirmed: float | None = None

    def hear(self, text: str) -> None:
        if text and self._first_text is None:
            self._first_text = self._taken()

    def confirm(self) -> None:
        if self._confirmed is None:
            self._confirmed = self._taken()

    def answered(self) -> Answered:
        if self._first_text is None:
            raise RuntimeError("the turn ended without a text")
        return Answered(self._first_text, self._confirmed)

    def _taken(self) -> float:
        return (time.perf_counter() - self._begin) * 1000
