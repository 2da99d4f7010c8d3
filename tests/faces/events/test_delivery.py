"""Real clients receive every event once and in order, over every transport and during an upgrade."""

import asyncio
import json
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack
from itertools import count

import pytest

from tests.faces.events.clients import CLIENTS, TRANSPORTS, python
from tests.faces.events.fake_hub import SESSION, FakeHub
from tests.faces.events.serving import engine, serving
from tests.support.eventually import eventually
from tests.support.node import JS, NODE

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_receives_everything_once_and_in_order(client: str, transport: str) -> None:
    fake = FakeHub()
    async with (
        serving(fake.hub) as (_, url),
        CLIENTS[client](url, transport, {"token": fake.tokens.issue()}) as received,
    ):
        ready = await received.until("ready")
        assert ready["resume"] == "none"
        assert ready["cursor"] == "e1-0"
        for number in range(0, 600, 3):
            fake.publish(number, number + 1, number + 2)
            await asyncio.sleep(0)
        fake.publish(600)
        assert await received.until_number(600) == list(range(601))
        assert received.events[600] == {
            "type": "message-received", "namespace": "default", "sessionId": SESSION,
            "cursor": "e1-601", "message": 600,
        }  # fmt: skip
        assert fake.metrics.deliveries == 601
        assert fake.metrics.clients == 1


LAST = -1


async def publish_until(fake: FakeHub, stop: asyncio.Event) -> None:
    """Publish about 800 events a second in pairs, and LAST when `stop` is set."""
    numbers = count()
    while not stop.is_set():
        fake.publish(next(numbers), next(numbers))
        await asyncio.sleep(0.0025)
    fake.publish(LAST)


async def test_late_javascript_clients_upgrade_in_a_running_stream() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (live_events, url):
        settings = {
            "url": url + "/events", "token": fake.tokens.issue(), "clients": 10, "last": LAST, "every": 60,
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            NODE, JS / "joiners.mjs", json.dumps(settings), stdout=PIPE
        )
        stop = asyncio.Event()
        publishing = asyncio.create_task(publish_until(fake, stop))
        await eventually(lambda: fake.metrics.clients == 10)
        await eventually(
            lambda: all(client.socket.upgraded for client in engine(live_events).connections.values())
        )
        stop.set()
        async with asyncio.timeout(20):
            await publishing
            output, _ = await process.communicate()
        found = json.loads(output)
        assert len(found) == 10
        for client in found:
            assert client["wrong"] == []
            assert client["transport"] == "websocket"
            assert client["polled"] >= 20 or not client["late"]


async def test_late_python_clients_upgrade_in_a_running_stream() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (_, url), AsyncExitStack() as stack:
        stop = asyncio.Event()
        publishing = asyncio.create_task(publish_until(fake, stop))
        clients = [
            await stack.enter_async_context(python(url, "upgrade", {"token": fake.tokens.issue()}))
            for _ in range(5)
        ]
        for received in clients:
            await received.until("event", 10)
        stop.set()
        await publishing
        for received in clients:
            *numbers, _ = await received.until_number(LAST)
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert fake.store.rows[-2].data.endswith(b'"message":%d}' % clients[0].numbers[-2])
