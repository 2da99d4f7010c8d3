"""Watches the attacked processes: memory, stalls of the event loop, tracebacks, and what they keep."""

from __future__ import annotations

import asyncio
import re
import time
from statistics import mean

from tests.fuzz.attack import Defect
from tests.fuzz.process import OPEN_FILES
from tests.fuzz.target import Target, Watched
from tests.support.stalls import LIMIT_SECONDS, Stall

GROWTH_BYTES = 150 * 1024 * 1024
"""How much more memory a process may have after the attacks than before."""
DRIFT_BYTES = 60 * 1024 * 1024
"""How much more it may have on average in the last third than in the second."""
KEPT_OBJECTS = 400
"""How many more objects of one type may exist after the attacks. A leak is one per attack or more."""
KEPT_PLAIN = 5000
"""The same for plain containers and their entries, which also hold what is rightly kept, such as a session's log."""
KEPT_FILES = 20
SETTLE_SECONDS = 90.0
"""Within this time everything that attacks left behind is gone: the longest timeout is that of a silent poll, 45 s."""
STALLS = 3
"""So many stalls over the limit are a defect."""
STALL_SECONDS = 2 * LIMIT_SECONDS
"""And so is one of this length."""
_SAMPLE_SECONDS = 0.2


class Monitor:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._samples: dict[Watched, list[int]] = {watched: [] for watched in target.processes}
        self._before: dict[Watched, dict[str, int]] = {}
        self._since = 0.0
        self._settled = 0.0
        """Seconds until nothing was kept."""

    async def begin(self) -> None:
        """Take the censuses that the later ones are compared with."""
        await self._target.tidy()
        for watched in self._samples:
            self._before[watched] = await watched.census()
        self._since = time.monotonic()

    async def run(self) -> None:
        """Watch until cancelled. Raises Defect if a process dies."""
        while True:
            await asyncio.sleep(_SAMPLE_SECONDS)
            for watched, samples in self._samples.items():
                if not watched.is_alive:
                    raise Defect(f"the {watched.root.name} has died: {watched.log[-3000:]}")
                samples.append(watched.resident_bytes)

    async def defects(self) -> list[str]:
        """Check everything at the end."""
        return [
            *self._tracebacks(), *self._memory_defects(), *self._stall_defects(), *await self._kept_for_long()
        ]  # fmt: skip

    def _tracebacks(self) -> list[str]:
        """The different tracebacks in the logs, each once."""
        found: dict[tuple[str, ...], str] = {}
        for watched in self._samples:
            for part in watched.log.split("Traceback (most recent call last):")[1:]:
                text = re.split(r"^[^ \n].*$", part, maxsplit=1, flags=re.MULTILINE)[0]
                error = part[len(text) :].partition("\n")[0]
                places = tuple(re.findall(r"File (.*)", text))
                found.setdefault(
                    places, f"a traceback in the log of the {watched.root.name}:{text[-2000:]}{error[:300]}"
                )
        return [*found.values()]

    def _memory_defects(self) -> list[str]:
        found: list[str] = []
        for watched, samples in self._samples.items():
            third = max(1, len(samples) // 3)
            growth = mean(samples[-third:]) - samples[0]
            drift = mean(samples[-third:]) - mean(samples[-2 * third : -third] or samples)
            if growth > GROWTH_BYTES or drift > DRIFT_BYTES:
                figures = [sample >> 20 for sample in samples[:: max(1, len(samples) // 30)]]
                found.append(f"the {watched.root.name} takes more and more memory (MiB): {figures}")
        return found

    def _stall_defects(self) -> list[str]:
        """What one input causes, a campaign causes often. A single stall may be a core that is shared with others."""
        found: list[str] = []
        for watched in self._samples:
            # What the event loop did not compute it waited for a core: other processes run here too.
            long = [stall for stall in self.stalls(watched) if stall.cpu_seconds > LIMIT_SECONDS]
            if len(long) >= STALLS or any(stall.cpu_seconds > STALL_SECONDS for stall in long):
                found += [
                    f"the event loop of the {watched.root.name} was blocked for {stall.seconds:.3f} s"
                    f" ({stall.cpu_seconds:.3f} s of computing): {stall.where}"
                    for stall in long[:5]
                ]
        return found

    def stalls(self, watched: Watched) -> list[Stall]:
        """The stalls since the begin, those with the most computing first."""
        return sorted(watched.stalls(self._since), key=lambda stall: -stall.cpu_seconds)

    async def _kept_for_long(self) -> list[str]:
        """Wait until nothing is kept that the attacks have caused. Returns what is."""
        begun = time.monotonic()
        while True:
            await self._target.tidy()
            kept = [line for watched in self._samples for line in await self._kept(watched)]
            self._settled = time.monotonic() - begun
            if not kept or self._settled > SETTLE_SECONDS:
                return kept
            await asyncio.sleep(2.0)

    async def _kept(self, watched: Watched) -> list[str]:
        before, now = self._before[watched], await watched.census()
        return [
            f"the {watched.root.name} has {count} {name}, {before.get(name, 0)} before"
            for name, count in now.items()
            if count - before.get(name, 0) > _allowed(name)
        ]

    def summary(self) -> str:
        parts: list[str] = []
        for watched, samples in self._samples.items():
            worst = max((stall.cpu_seconds for stall in self.stalls(watched)), default=0.0)
            late = max((stall.seconds for stall in watched.stalls(self._since)), default=0.0)
            parts.append(
                f"{watched.root.name}: {samples[0] >> 20} to {max(samples) >> 20} MiB, {samples[-1] >> 20} at the end,"
                f" longest stall {worst * 1000:.0f} ms computing, {late * 1000:.0f} ms in all"
            )
        return "; ".join([*parts, f"settled within {self._settled:.0f} s"])


def _allowed(name: str) -> int:
    """How many more of these may exist after the attacks."""
    if name == OPEN_FILES:
        return KEPT_FILES
    return KEPT_PLAIN if name.startswith(("builtins.", "entries of ")) else KEPT_OBJECTS
