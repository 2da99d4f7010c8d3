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
    """Runs a coroutine on each kind of event loop; a process must behave alike on both."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner.run


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """For what sends no event: another program's state."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def gone(pid: int) -> None:
    """It was told to die, but it is no child of ours whose end we are told."""
    await until(lambda: not (psutil.pid_exists(pid) and is_alive(psutil.Process(pid))))
