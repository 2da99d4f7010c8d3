"""The probe that other tests measure event loops with."""

import asyncio
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.stalls import TOKEN, Stall, StallProbe, watched_hub


def block(seconds: float) -> None:
    threading.Event().wait(seconds)


async def test_the_probe_reports_how_long_a_loop_was_blocked() -> None:
    stalls: list[Stall] = []
    probe = StallProbe(stalls.append)
    probe.start()
    started = time.monotonic()
    block(0.2)
    await eventually(lambda: bool(stalls))
    probe.stop()
    assert 0.1 < stalls[0].seconds < time.monotonic() - started
    assert "block" in stalls[0].where


async def test_a_wait_is_no_stall() -> None:
    stalls: list[Stall] = []
    probe = StallProbe(stalls.append)
    probe.start()
    await asyncio.to_thread(threading.Event().wait, 0.05)
    probe.stop()
    assert not any("test_a_wait_is_no_stall" in stall.where for stall in stalls)


@pytest.mark.slow
async def test_a_hub_in_its_own_process_is_watched(tmp_path: Path) -> None:
    async with watched_hub(tmp_path) as hub, httpx.AsyncClient(base_url=hub.url) as client:
        answer = await client.post("/api/auth", json={"accessToken": TOKEN})
        assert answer.status_code == 200
        assert all(stall.seconds > 0 for stall in hub.stalls())
        assert hub.resident_bytes > 0
        assert "Traceback" not in hub.log
    assert hub.process.returncode == 0
