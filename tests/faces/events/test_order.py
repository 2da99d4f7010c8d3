"""Direct writes and packets in the queue of Engine.IO never overtake each other."""

import asyncio
import json

import httpx
import pytest

from farsteer.faces.events.app import LiveEvents
from farsteer.faces.events.options import EventLimits
from farsteer.faces.events.socketio_compat import ClientConnection
from tests.faces.events.fake_hub import FakeHub
from tests.faces.events.raw_client import raw_client, raw_websocket
from tests.faces.events.serving import engine, serving
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

TEXT = "x" * 500
PREFIX = "42/events,"


def only_connection(live_events: LiveEvents) -> ClientConnection:
    (client,) = engine(live_events).connections.values()
    return client


def payloads(packets: list[str]) -> list[object]:
    events = [json.loads(packet.removeprefix(PREFIX)) for packet in packets if packet.startswith(PREFIX)]
    return [value["message"] for name, value in events if name == "event"]


async def test_direct_and_queued_events_keep_their_order_while_the_client_does_not_read() -> None:
    fake = FakeHub()
    token = fake.tokens.issue()
    numbers = iter(range(1_000_000))

    def publish(count: int) -> int:
        found = [next(numbers) for _ in range(count)]
        fake.publish(*([number, TEXT] for number in found))
        return found[-1]

    async with (
        serving(fake.hub, EventLimits(soft_limit=16 * 1024, hard_limit=1 << 30)) as (live_events, url),
        raw_client(url, {"token": token}) as raw,
    ):
        client = only_connection(live_events)
        await raw.event()
        await eventually(lambda: client.queue.is_idle)
        # Direct until the client is behind. Then its acks are queued, and the writer holds the first of them.
        publish(1000)
        await eventually(lambda: client.is_behind)
        assert client.queue.is_idle
        for id in range(5):
            raw.send(f'42/events,{id}["auth",{json.dumps({"token": token})}]')
            await eventually(lambda: fake.tokens.verified == id + 2)  # noqa: B023
            assert not client.queue.is_idle
            publish(200)
            await asyncio.sleep(0)
        last = publish(1)
        assert client.queue.qsize() > 900
        received: list[str] = []
        async with asyncio.timeout(10):
            while f"[{last}," not in (received or [""])[-1]:
                received.append(await raw.receive())
        assert payloads(received) == [[number, TEXT] for number in range(last + 1)]
        acks = [(index, text) for index, text in enumerate(received) if text.startswith("43")]
        assert [text[10] for _, text in acks] == ["0", "1", "2", "3", "4"]
        assert acks[0][0] == 1000
        # The queue is empty: direct again.
        await eventually(lambda: client.queue.is_idle)
        publish(3)
        for _ in range(3):
            await raw.event()
        assert client.queue.is_idle


async def test_events_at_every_step_of_an_upgrade() -> None:
    """Publish during a waiting poll, the probe, the end of the poll, the upgrade and right after it."""
    fake = FakeHub()
    numbers = iter(range(1000))
    received: list[str] = []

    def publish() -> None:
        fake.publish(next(numbers))

    async with serving(fake.hub) as (live_events, url), httpx.AsyncClient(base_url=url) as http:
        path = "/socket.io/?EIO=4&transport=polling"
        sid = json.loads((await http.get(path)).text[1:])["sid"]
        path += f"&sid={sid}"
        await http.post(path, content=f"40/events,{json.dumps({'token': fake.tokens.issue()})}")
        received += (await http.get(path)).text.split("\x1e")
        publish()
        received += (await http.get(path)).text.split("\x1e")
        poll = asyncio.create_task(http.get(path))
        async with raw_websocket(url, f"&sid={sid}") as raw:
            publish()
            raw.send("2probe")
            publish()
            assert await raw.receive() == "3probe"
            publish()
            received += (await poll).text.split("\x1e")
            publish()
            await asyncio.sleep(0)
            assert (await http.get(path)).text == "6"
            publish()
            raw.send("5")
            publish()
            await eventually(lambda: only_connection(live_events).socket.upgraded)
            publish()
            await eventually(lambda: only_connection(live_events).queue.is_idle)
            publish()
            async with asyncio.timeout(5):
                while len(payloads(received)) < 9:
                    received.append(await raw.receive())
    assert payloads(received) == list(range(9))


async def test_a_failed_upgrade_keeps_the_polling_client_connected() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (live_events, url), httpx.AsyncClient(base_url=url) as http:
        path = "/socket.io/?EIO=4&transport=polling"
        sid = json.loads((await http.get(path)).text[1:])["sid"]
        path += f"&sid={sid}"
        await http.post(path, content=f"40/events,{json.dumps({'token': fake.tokens.issue()})}")
        await http.get(path)
        async with raw_websocket(url, f"&sid={sid}"):
            await eventually(lambda: only_connection(live_events).socket.upgrading)
        await eventually(lambda: not only_connection(live_events).socket.upgrading)
        fake.publish("still here")
        assert payloads((await http.get(path)).text.split("\x1e")) == ["still here"]


async def test_a_second_websocket_for_the_same_client_is_refused() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (live_events, url), httpx.AsyncClient(base_url=url) as http:
        sid = json.loads((await http.get("/socket.io/?EIO=4&transport=polling")).text[1:])["sid"]
        async with raw_websocket(url, f"&sid={sid}"):
            await eventually(lambda: only_connection(live_events).socket.upgrading)
            headers = {
                "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            }  # fmt: skip
            second = await http.get(f"/socket.io/?EIO=4&transport=websocket&sid={sid}", headers=headers)
            assert second.status_code == 403
