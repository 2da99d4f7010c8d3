"""A machine with a thousand agents: they end together, die together and stay out of each other's way.

`MANY_AGENTS=1000` sets their number. The agents are real processes, of a shell script that needs little memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from farsteer.client import AsyncClient
from farsteer.client.turn import AsyncTurn
from tests.support.eventually import eventually
from tests.support.stalls import TOKEN, WatchedHub, watched_hub

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

AGENTS = int(os.environ.get("MANY_AGENTS", "300"))
STARTED_TOGETHER = 20
SAMPLES = 100
END_SECONDS = 3.0
STALL_SECONDS = 0.1
MESSAGE_SECONDS = 0.05
SESSION_BYTES = 300_000


def agents_of(hub: WatchedHub) -> list[psutil.Process]:
    found = psutil.Process(hub.process.pid).children()
    return [process for process in found if process.name() == "sh"]


async def ask(client: AsyncClient, session: str) -> float:
    """Send a short message and return the seconds until its turn has ended."""
    started = time.perf_counter()
    result = await AsyncTurn(client, session, "yes?").finish()
    assert result.check().text == "yes"
    return time.perf_counter() - started


def contention() -> float:
    """How much longer work takes than it needs, because others use the cores too. 1.0 on an idle machine."""
    began, cpu = time.perf_counter(), time.thread_time()
    while time.thread_time() - cpu < 0.2:
        pass
    return (time.perf_counter() - began) / 0.2


def cpu_seconds(hub: WatchedHub) -> float:
    used = psutil.Process(hub.process.pid).cpu_times()
    return used.user + used.system


@asynccontextmanager
async def many_agents(root: Path) -> AsyncGenerator[tuple[WatchedHub, AsyncClient, list[str]]]:
    """A hub with a runner and `AGENTS` sessions, each with its process."""
    async with (
        watched_hub(root, module="tests.support.shell_agent") as hub,
        AsyncClient(hub.url, TOKEN) as client,
    ):
        sessions: list[str] = []
        directory = root / "project"
        directory.mkdir()

        async def start(count: int) -> None:
            for _ in range(count):
                sessions.append((await client.start(directory, agent="demo")).id)

        first = AGENTS % STARTED_TOGETHER
        await start(max(first, 1))
        await asyncio.gather(*(start(AGENTS // STARTED_TOGETHER) for _ in range(STARTED_TOGETHER)))
        assert len(agents_of(hub)) >= AGENTS
        yield hub, client, sessions


async def test_a_thousand_sessions_answer_fast_and_end_in_time(tmp_path: Path) -> None:
    async with many_agents(tmp_path) as (hub, client, sessions):
        resident = hub.resident_bytes
        slower = contention()
        used = cpu_seconds(hub)
        seconds = [await ask(client, sessions[n % len(sessions)]) for n in range(SAMPLES)]
        p50 = statistics.median(seconds)
        used = (cpu_seconds(hub) - used) / SAMPLES
        agents = agents_of(hub)
        hub.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        code = await asyncio.to_thread(hub.process.wait, 60)
        took = time.monotonic() - began
        print(
            f"{len(sessions)} agents: p50 {p50 * 1000:.1f} ms ({used * 1000:.1f} ms of CPU), ended in {took:.2f} s,"
            f" {resident / 1e6:.0f} MB in the process, contention {slower:.1f}"
        )
        assert code == 0, hub.log
        assert not [agent for agent in agents if agent.is_running()]
        assert p50 < MESSAGE_SECONDS * slower
        assert took < END_SECONDS * slower
        assert resident < 120_000_000 + SESSION_BYTES * AGENTS


async def test_a_thousand_agents_killed_at_once_stop_nothing_else(tmp_path: Path) -> None:
    async with many_agents(tmp_path) as (hub, client, sessions):
        other, *_ = sessions
        await ask(client, other)
        # The first session keeps its agent.
        _, *agents = sorted(agents_of(hub), key=lambda agent: agent.create_time())
        slower = contention()
        began = time.monotonic()
        for agent in agents:
            with suppress(psutil.NoSuchProcess):
                agent.kill()
        waited = await ask(client, other)
        await eventually(lambda: not [agent for agent in agents if agent.is_running()], 60)
        reaped = time.monotonic() - began
        again = await ask(client, sessions[-1])
        worst = hub.stalls(began)[:3]
        print(
            f"{len(agents)} killed: a message of another session took {waited:.2f} s, all were reaped after"
            f" {reaped:.2f} s, and one of them answered in {again:.2f} s, contention {slower:.1f}"
        )
        print(*worst, sep="\n")
        assert waited < 1.0 * slower
        assert not [stall for stall in worst if stall.cpu_seconds > STALL_SECONDS]
