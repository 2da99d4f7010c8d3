from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from farsteer.agents.base import LaunchPlan
from farsteer.agents.droid import launch as launch_module
from farsteer.agents.droid.launch import DroidLaunch
from tests.agents.droid.peer import NEW, Peer, Recorder, Stage, opened, plan

Open = Callable[..., Awaitable[Stage]]


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> list[Peer]:
    """Every Droid that a launch starts is one of these."""
    started: list[Peer] = []

    class Process:
        @staticmethod
        def start(argv: Any, *, cwd: str, environment: Any, on_lines: Any, on_exit: Any) -> Peer:
            started.append(Peer(on_lines, on_exit, environment))
            return started[-1]

    monkeypatch.setattr(launch_module, "AgentProcess", Process)
    return started


@pytest.fixture
async def start(peers: list[Peer]) -> AsyncIterator[Open]:
    """Opens a launch; it is stopped when the test is over."""
    stages: list[Stage] = []

    async def open_launch(
        asked: LaunchPlan | None = None, *, protocol: str | None = NEW, answer: dict[str, Any] | None = None
    ) -> Stage:
        sink = Recorder()
        starting = asyncio.create_task(DroidLaunch.start(("droid",), asked or plan(), sink))
        while not peers or len(peers) == len(stages):  # noqa: ASYNC110
            await asyncio.sleep(0)
        peer = peers[-1]
        peer.protocol = protocol
        await peer.answer(await peer.next(), answer or opened())
        stages.append(Stage(await starting, peer, sink))
        return stages[-1]

    yield open_launch
    for stage in stages:
        await stage.launch.stop(0)


@pytest.fixture
async def stage(start: Open) -> Stage:
    return await start()
