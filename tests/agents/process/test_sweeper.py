"""Many agents that end together cost one search for what they left behind, and no time of the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Set

import pytest

from farsteer.agents.process import posix
from farsteer.agents.process.sweeper import Leader, Sweeper


async def test_ends_during_a_pass_share_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loop_thread = threading.get_ident()
    passes: list[set[int]] = []
    first_runs, first_may_end = threading.Event(), threading.Event()

    def search(matches: Callable[[str], bool], leaders: Set[int], skip: Set[int]) -> list[object]:
        assert threading.get_ident() != loop_thread
        assert all(matches(f"mark {leader}") for leader in leaders)
        passes.append(set(leaders))
        if len(passes) == 1:
            first_runs.set()
            assert first_may_end.wait(10)
        return []

    monkeypatch.setattr(posix, "kill_marked", search)
    sweeper = Sweeper()
    ended: list[int] = []
    all_ended = asyncio.Event()

    def sweep(pid: int) -> None:
        def done() -> None:
            ended.append(pid)
            if len(ended) == 1000:
                all_ended.set()

        sweeper.sweep(Leader(pid, f"mark {pid}"), done)

    sweep(0)
    await asyncio.to_thread(first_runs.wait, 10)
    for pid in range(1, 1000):
        sweep(pid)
    first_may_end.set()
    async with asyncio.timeout(10):
        await all_ended.wait()
    assert ended == list(range(1000))
    assert passes == [{0}, set(range(1, 1000))]


async def test_other_work_goes_on_between_the_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posix, "kill_marked", lambda *_, **__: [])
    sweeper = Sweeper()
    ended: list[int] = []
    for pid in range(100):
        sweeper.sweep(Leader(pid, "mark"), lambda: ended.append(1))
    seen: set[int] = set()
    async with asyncio.timeout(10):
        while len(ended) < 100:
            seen.add(len(ended))
            await asyncio.sleep(0)
    assert len(seen) > 10


async def test_a_search_that_fails_still_reports_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> list[object]:
        raise OSError("no /proc")

    monkeypatch.setattr(posix, "kill_marked", fail)
    done = asyncio.Event()
    Sweeper().sweep(Leader(1, "mark"), done.set)
    async with asyncio.timeout(10):
        await done.wait()


async def test_an_end_is_reported_when_what_was_killed_no_longer_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Killed:
        """A process that takes a while to die."""

        pid = 5

        def __init__(self) -> None:
            self.looks = 0

        def is_running(self) -> bool:
            self.looks += 1
            return self.looks < 5

        def status(self) -> str:
            return "running"

    killed = Killed()
    monkeypatch.setattr(posix, "kill_marked", lambda *_, **__: [killed])
    reported: list[int] = []
    done = asyncio.Event()

    def report() -> None:
        reported.append(killed.looks)
        done.set()

    Sweeper().sweep(Leader(1, "mark"), report)
    async with asyncio.timeout(10):
        await done.wait()
    assert reported == [5]
