"""A runner that has lost its journal gets a thousand sessions back over a real link."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from farsteer.client import AsyncClient
from farsteer.client.turn import AsyncTurn
from farsteer.core.api import SessionView
from farsteer.core.events import SessionStatus
from tests.support.eventually import eventually
from tests.support.stalls import LIMIT_SECONDS, TOKEN, watched_hub, watched_runner

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

SESSIONS = 1000
CREATED_TOGETHER = 20
BACK_SECONDS = 20.0
"""On a machine that is busy with other tests too. It takes about 2 s on an idle one."""
MEGABYTE = 1_000_000
MODULE = "tests.support.shell_agent"


async def test_a_thousand_sessions_of_a_lost_journal_are_back_over_a_real_link(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with (
        watched_hub(tmp_path / "hub", command="hub") as hub,
        AsyncClient(hub.url, TOKEN) as client,
    ):
        async with watched_runner(tmp_path / "runner", hub, module=MODULE) as runner:
            created = await create_sessions(client, project)
            await answers(client, created[0])
            runner.process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(runner.process.wait)
        await until_all(client, lambda one: one.status is SessionStatus.UNREACHABLE)
        for file in runner.home.glob("runner.db*"):
            file.unlink()

        hub.reset_peak()
        before, began = hub.resident_bytes, time.monotonic()
        async with watched_runner(tmp_path / "runner", hub, module=MODULE) as runner:
            sessions = await until_all(client, lambda one: one.status is SessionStatus.STOPPED)
            back = time.monotonic() - began
            waited = [await answers(client, id) for id in (created[0], created[-1])]
            stalls = {"hub": hub.stalls(began)[:3], "runner": runner.stalls(began)[:3]}
            peaks = {"hub": hub.peak_bytes - before, "runner": runner.peak_bytes}
            print(f"back after {back:.1f} s, answered in {waited} s, {peaks}", stalls, sep="\n")
            assert {one.id for one in sessions} == {*created}
            assert back < BACK_SECONDS
            assert max(waited) < 5.0
            assert peaks["hub"] < 50 * MEGABYTE
            assert peaks["runner"] < 200 * MEGABYTE
            computed = [stall.cpu_seconds for found in stalls.values() for stall in found]
            assert max(computed, default=0.0) < LIMIT_SECONDS


async def create_sessions(client: AsyncClient, directory: Path) -> list[str]:
    ids: list[str] = []

    async def create() -> None:
        for _ in range(SESSIONS // CREATED_TOGETHER):
            ids.append((await client.start(directory, agent="demo")).id)

    await asyncio.gather(*(create() for _ in range(CREATED_TOGETHER)))
    return ids


async def until_all(client: AsyncClient, holds: Callable[[SessionView], bool]) -> list[SessionView]:
    """Wait until something holds for all sessions, and return them."""
    found: list[SessionView] = []

    async def all_hold() -> bool:
        found[:] = [one async for one in client.sessions()]
        return all(holds(one) for one in found)

    await eventually(all_hold, 60)
    return found


async def answers(client: AsyncClient, session: str) -> float:
    """Send a short message and return the seconds until its turn has ended."""
    began = time.monotonic()
    result = await AsyncTurn(client, session, "yes?").finish()
    assert result.check().text == "yes"
    return time.monotonic() - began
