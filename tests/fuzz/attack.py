"""One attack: its number, its mutator, its target, and what it has sent."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.fuzz.mutator import Mutator
from tests.fuzz.target import Target

_KEPT_FRAMES = 4000
_KEPT_BYTES = 64 * 1024 * 1024


class Defect(AssertionError):
    """The target did what it must never do."""


class Frames:
    """The last frames that were sent, to be written to a file if something fails."""

    def __init__(self) -> None:
        self._frames: deque[tuple[str, bytes]] = deque()
        self._bytes = 0
        self.count = 0
        self.sent_bytes = 0

    def add(self, attack: str, data: bytes) -> None:
        self._frames.append((attack, data))
        self._bytes += len(data)
        self.count += 1
        self.sent_bytes += len(data)
        while len(self._frames) > _KEPT_FRAMES or self._bytes > _KEPT_BYTES:
            self._bytes -= len(self._frames.popleft()[1])

    def write(self, path: Path) -> None:
        """One line of JSON for each frame. Bytes that are not UTF-8 are in base64."""
        with path.open("w") as file:
            for attack, data in self._frames:
                line: dict[str, Any] = {"attack": attack}
                try:
                    line["text"] = data.decode()
                except UnicodeDecodeError:
                    line["base64"] = base64.b64encode(data).decode()
                file.write(json.dumps(line) + "\n")


class Attack:
    def __init__(
        self, seed: int, face: str, number: int, worker: int, target: Target, frames: Frames
    ) -> None:
        self.name = f"{face} {number}"
        self.number = number
        self.worker = worker
        """The attacks of one worker come one after the other."""
        self.target = target
        self.mutator = Mutator(f"{seed} {face} {number}")
        self._frames = frames

    def sent(self, data: bytes) -> None:
        self._frames.add(self.name, data)

    def fail(self, what: str) -> Defect:
        return Defect(f"attack {self.name}: {what}")


Play = Callable[[Attack], Awaitable[None]]


async def within(seconds: float, work: Awaitable[Any]) -> Any:
    """Return the result, or None after that time."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return None
