from __future__ import annotations

import asyncio

import pytest

from farsteer.agents.acp import turn_watch
from farsteer.agents.acp.turn_watch import TurnWatch


async def test_a_long_silence_is_told_once_and_asked_again_until_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_watch, "SILENCE_SECONDS", 0.01)
    told: list[float] = []
    done = asyncio.Event()

    def tell(seconds: float) -> bool:
        told.append(seconds)
        if len(told) == 2:
            done.set()
        return len(told) == 2

    watch = TurnWatch(lambda: None, tell)
    watch.begin_turn()
    async with asyncio.timeout(5):
        await done.wait()
    assert told[0] >= 0.01
    assert watch._silence is None
    watch.close()


async def test_the_end_of_a_turn_ends_its_timer() -> None:
    watch = TurnWatch(lambda: None, lambda _: True)
    watch.begin_turn()
    timer = watch._silence
    watch.end_turn()
    assert timer is not None
    assert timer.cancelled()


async def test_a_message_settles_when_nothing_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_watch, "SETTLE_SECONDS", 0.01)
    settled = asyncio.Event()
    watch = TurnWatch(settled.set, lambda _: True)
    watch.settle_later()
    watch.settle_later()
    async with asyncio.timeout(5):
        await settled.wait()
    watch.close()
