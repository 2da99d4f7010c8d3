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

_KEPT_ATTACKS = 1000
_KEPT_BYTES = 64 * 1024 * 1024


class Defect(AssertionError):
    """The target did what it must never do."""


class Frames:
    """What the last attacks have sent, and those that found a defect: written to a file if something fails."""

    def __init__(self) -> None:
        self._attacks: deque[tuple[str, list[bytes]]] = deque()
        self._bytes = 0
        self._found: dict[str, list[bytes]] = {}
        self.count = 0
        self.sent_bytes = 0

    def begin(self, attack: str) -> list[bytes]:
        """Return the list for the frames of an attack."""
        frames: list[bytes] = []
        self._attacks.append((attack, frames))
        return frames

    def add(self, frames: list[bytes], data: bytes) -> None:
        frames.append(data)
        self.count += 1
        self.sent_bytes += len(data)
        self._bytes += len(data)
        while self._bytes > _KEPT_BYTES or len(self._attacks) > _KEPT_ATTACKS:
            self._bytes -= sum(map(len, self._attacks.popleft()[1]))

    def keep(self, attack: str, frames: list[bytes]) -> None:
        self._found[attack] = frames

    def write(self, path: Path) -> None:
        """One line of JSON for each frame. Bytes that are not UTF-8 are in base64."""
        with path.open("w") as file:
            for attack, frames in ({**dict(self._attacks), **self._found}).items():
                for data in frames:
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
        self._all_frames = frames
        self._frames = frames.begin(self.name)

    def sent(self, data: bytes) -> None:
        self._all_frames.add(self._frames, data)

    def fail(self, what: str) -> Defect:
        self._all_frames.keep(self.name, self._frames)
        return Defect(f"attack {self.name}: {what}")


Play = Callable[[Attack], Awaitable[None]]


async def within(seconds: float, work: Awaitable[Any]) -> Any:
    """Return the result, or None after that time."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return None
