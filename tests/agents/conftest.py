from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import psutil
import pytest
import uvloop

from tests.support.processes import is_alive

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run a coroutine on both event loops: a process must behave alike on them."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner.run


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Poll for the state of another program, which sends no event."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def gone(pid: int) -> None:
    """Wait until a process that is not our child is gone."""
    await until(lambda: not (psutil.pid_exists(pid) and is_alive(psutil.Process(pid))))
