"""A namespace has a limited number of live connections, and slow readers together a limited buffer."""

import asyncio
from contextlib import AsyncExitStack

import httpx
import pytest

from farsteer.faces.events.options import EventLimits
from farsteer.hub.metrics import Metrics
from farsteer.hub.settings import Limits
from farsteer.hub.sockets import SlowReaders
from tests.faces.events.fake_hub import FakeHub
from tests.faces.events.raw_client import raw_client, raw_websocket
from tests.faces.events.recording_subscriber import RecordingSubscriber
from tests.faces.events.serving import serving
from tests.faces.events.sse_client import subscribed
from tests.support.eventually import eventually


@pytest.mark.slow
async def test_a_namespace_with_too_many_live_connections_gets_a_clear_refusal() -> None:
    fake = FakeHub(Limits(sockets=2))
    token = fake.tokens.issue()
    async with serving(fake.hub) as (live_events, url), AsyncExitStack() as opened:
        await opened.enter_async_context(raw_client(url, {"token": token}))
        async with subscribed(url, token) as stream:
            await stream.next()
            async with raw_websocket(url) as refused:
                refused.send(f'40/events,{{"token":"{token}"}}')
                answer = await refused.receive()
                assert answer.startswith("44/events,")
                assert '"code":"too_many_sockets"' in answer
            async with httpx.AsyncClient(base_url=url) as http:
                response = await http.get("/api/events", headers={"Authorization": f"Bearer {token}"})
            assert response.status_code == 429
            assert response.json()["error"]["code"] == "too_many_sockets"
            async with subscribed(url, fake.tokens.issue("other")) as other:
                await other.next()
        await eventually(lambda: len(live_events.subscriptions) == 1)
        await opened.enter_async_context(raw_client(url, {"token": token}))
    assert fake.sockets.count("default") == 0


def slow_reader(readers: SlowReaders, size: int) -> RecordingSubscriber:
    reader = RecordingSubscriber(slow_readers=readers)
    reader.slow = True
    reader.unsent = size
    readers.update(reader)
    return reader


async def test_the_reader_that_is_furthest_behind_is_cut_off_when_too_much_waits_in_all() -> None:
    metrics = Metrics()
    readers = SlowReaders(Limits(buffered_bytes=1000), metrics)
    first, second = slow_reader(readers, 400), slow_reader(readers, 500)
    assert metrics.buffered_bytes == 900
    third = slow_reader(readers, 300)
    assert (first.is_aborted, second.is_aborted, third.is_aborted) == (False, True, False)
    assert metrics.buffered_bytes == 700
    first.unsent = 100
    fourth = slow_reader(readers, 500)
    assert not fourth.is_aborted, "the first has read meanwhile"
    first.slow = False
    first.on_writable()
    assert metrics.buffered_bytes == 800


@pytest.mark.slow
async def test_clients_that_do_not_read_share_one_bounded_buffer() -> None:
    fake = FakeHub(Limits(buffered_bytes=1024 * 1024))
    limits = EventLimits(soft_limit=64 * 1024)
    token = fake.tokens.issue()
    async with serving(fake.hub, limits) as (live_events, url), AsyncExitStack() as opened:
        for _ in range(8):
            stalled = await opened.enter_async_context(raw_client(url, {"token": token}))
            await stalled.event()
        reading = await opened.enter_async_context(raw_client(url, {"token": token}))
        await reading.event()
        for number in range(1, 101):
            fake.publish("x" * 20_000, number)
            async with asyncio.timeout(10):
                while (await reading.event())[1]["message"] != number:
                    pass
            assert fake.metrics.buffered_bytes <= 1024 * 1024
        await eventually(lambda: len(live_events.subscriptions) < 9)
        assert len(live_events.subscriptions) >= 1
        assert fake.metrics.clients_cut == 9 - len(live_events.subscriptions)
    assert fake.metrics.buffered_bytes == 0
