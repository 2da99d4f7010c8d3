"""A campaign: attacks on one face, or on all, for a time, under the eyes of the monitor and the well-behaved client."""

from __future__ import annotations

import asyncio
import itertools
import re
from pathlib import Path

from tests.fuzz.attack import Attack, Defect, Frames, Play
from tests.fuzz.client import WellBehavedClient
from tests.fuzz.monitor import Monitor
from tests.fuzz.target import Target, started

WORKERS = 6
"""Attacks at the same time."""
SLOW_WORKERS = 2
"""The same for attacks that start processes."""
SLOW_FACES = ("stdio", "agent")
_WARM_UP = 0.2
"""The part of the time before the first census: imports, caches and pools fill."""
_ATTACK_SECONDS = 150.0
_ENOUGH = 10
"""A campaign goes on after a defect, up to this many."""


class Campaign:
    def __init__(self, faces: dict[str, Play], seed: int, seconds: float, first: int = 0) -> None:
        """`first` is the number of the first attack, to repeat one that found something."""
        self._faces = faces
        self._seed = seed
        self._seconds = seconds
        self._numbers = {face: itertools.count(first) for face in faces}
        self.frames = Frames()
        self._defects: dict[str, str] = {}
        """Each kind of defect once, by its text without ids and numbers."""

    async def run(self, root: Path) -> str:
        """Attack, check, and return a summary. Raises Defect."""
        async with started(root) as target:
            return await self._run(target)

    async def _run(self, target: Target) -> str:
        directory = target.root / "quiet"
        directory.mkdir()
        client = WellBehavedClient(target.url, directory)
        monitor = Monitor(target)
        using = asyncio.create_task(self._use(client))
        try:
            await self._attack(target, self._seconds * _WARM_UP, using)
            await monitor.begin()
            watching = asyncio.create_task(monitor.run())
            try:
                await self._attack(target, self._seconds * (1 - _WARM_UP), using, watching)
            finally:
                watching.cancel()
            for defect in await monitor.defects():
                self._add(defect)
            if using.done():
                using.result()
        finally:
            using.cancel()
            await asyncio.gather(using, return_exceptions=True)
        assert client.rounds, "the well-behaved client did nothing"
        if self._defects:
            raise self._failure()
        return (
            f"{self.frames.count} frames, {self.frames.sent_bytes >> 20} MiB; {monitor.summary()};"
            f" {client.rounds} rounds of the well-behaved client, the slowest {client.slowest:.2f} s"
        )

    async def _use(self, client: WellBehavedClient) -> None:
        try:
            await client.run()
        except Exception as error:
            raise Defect(f"the well-behaved client failed after {client.rounds} rounds: {error!r}") from error

    async def _attack(self, target: Target, seconds: float, *guards: asyncio.Task[None]) -> None:
        """Attack for that time, or until an attack or a guard fails."""
        stop = asyncio.Event()
        workers = [
            asyncio.create_task(self._work(face, play, worker, target, stop))
            for face, play in self._faces.items()
            for worker in range(SLOW_WORKERS if face in SLOW_FACES else WORKERS)
        ]
        try:
            await _wait(workers, guards, seconds)
            stop.set()
            await _wait(workers, guards, None)
        finally:
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, face: str, play: Play, worker: int, target: Target, stop: asyncio.Event) -> None:
        while not stop.is_set():
            attack = Attack(self._seed, face, next(self._numbers[face]), worker, target, self.frames)
            try:
                async with asyncio.timeout(_ATTACK_SECONDS):
                    await play(attack)
            except TimeoutError:
                self._add(str(attack.fail(f"it has not ended within {_ATTACK_SECONDS:g} s")))
            except Defect as defect:
                self._add(str(defect))
            if len(self._defects) >= _ENOUGH:
                raise self._failure()

    def _add(self, defect: str) -> None:
        self._defects.setdefault(re.sub(r"[0-9a-f-]{36}|\d+", "", defect)[:300], defect)

    def _failure(self) -> Defect:
        return Defect("\n\n".join([f"{len(self._defects)} defects", *self._defects.values()]))


async def _wait(
    workers: list[asyncio.Task[None]], guards: tuple[asyncio.Task[None], ...], seconds: float | None
) -> None:
    """Wait for that time, or for all workers. Raises what a worker or a guard raises; a guard never just ends."""
    working = asyncio.gather(*workers)
    try:
        await asyncio.wait([working, *guards], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in (working, *guards):
            if task.done():
                task.result()
    finally:
        if not working.done():
            # The gathering only: the workers go on.
            working.add_done_callback(lambda done: done.cancelled() or done.exception())
