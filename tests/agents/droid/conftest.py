from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from farsteer.agents import process_launch
from farsteer.agents.base import LaunchPlan
from farsteer.agents.droid.launch import DroidLaunch
from tests.agents.droid.fake_droid import NEW, FakeDroid, LaunchHarness, OutputRecorder, opened_session, plan

StartLaunch = Callable[..., Awaitable[LaunchHarness]]


@pytest.fixture
def droids(monkeypatch: pytest.MonkeyPatch) -> list[FakeDroid]:
    """The fake that takes the place of each process a launch starts."""
    started: list[FakeDroid] = []

    class Process:
        @staticmethod
        def start(argv: Any, *, cwd: str, environment: Any, on_lines: Any, on_exit: Any) -> FakeDroid:
            started.append(FakeDroid(on_lines, on_exit, environment))
            return started[-1]

    monkeypatch.setattr(process_launch, "AgentProcess", Process)
    return started


@pytest.fixture
async def start(droids: list[FakeDroid]) -> AsyncIterator[StartLaunch]:
    """Starts a launch, which is stopped after the test."""
    harnesses: list[LaunchHarness] = []

    async def start_launch(
        wanted: LaunchPlan | None = None, *, protocol: str | None = NEW, answer: dict[str, Any] | None = None
    ) -> LaunchHarness:
        sink = OutputRecorder()
        starting = asyncio.create_task(DroidLaunch.start(("droid",), wanted or plan(), sink))
        while not droids or len(droids) == len(harnesses):  # noqa: ASYNC110
            await asyncio.sleep(0)
        droid = droids[-1]
        droid.protocol = protocol
        await droid.respond(await droid.next_line(), answer or opened_session())
        harnesses.append(LaunchHarness(await starting, droid, sink))
        return harnesses[-1]

    yield start_launch
    for harness in harnesses:
        await harness.launch.stop(0)


@pytest.fixture
async def harness(start: StartLaunch) -> LaunchHarness:
    return await start()
