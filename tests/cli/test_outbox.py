"""What is typed reaches the hub in order and once, also over a lost connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from farsteer.cli.terminal import outbox as module
from farsteer.cli.terminal.outbox import Outbox
from farsteer.client import AsyncClient
from farsteer.core.errors import Conflict, FarsteerError, Unavailable


class Hub:
    """Takes messages after it was away for some attempts."""

    def __init__(self, *failures: FarsteerError) -> None:
        self.failures = list(failures)
        self.taken: list[str] = []
        self.ids: list[str] = []

    async def send(self, session_id: str, text: str, *, local_id: str, **_: Any) -> None:
        self.ids.append(local_id)
        if self.failures:
            raise self.failures.pop(0)
        self.taken.append(text)


async def sent(hub: Hub, *texts: str) -> list[str]:
    """Send texts, and return those that were refused."""
    refused: list[str] = []
    done = asyncio.Event()

    def changed() -> None:
        if not outbox.waiting:
            done.set()

    outbox = Outbox(cast("AsyncClient", hub), "s", changed, lambda message, _: refused.append(message.text))
    for text in texts:
        outbox.put(text)
    task = asyncio.create_task(outbox.run())
    async with asyncio.timeout(5):
        await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return refused


async def test_a_lost_connection_repeats_the_same_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0)
    hub = Hub(Unavailable("away"), Unavailable("away"))
    assert await sent(hub, "one", "two") == []
    assert hub.taken == ["one", "two"]
    assert len(set(hub.ids[:3])) == 1, "the hub knows a message by its id"


async def test_what_the_hub_refuses_is_given_back() -> None:
    hub = Hub(Conflict("the queue is full"))
    assert await sent(hub, "one", "two") == ["one"]
    assert hub.taken == ["two"]
