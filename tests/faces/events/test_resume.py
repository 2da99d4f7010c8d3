"""A client that was disconnected or too slow resumes at its cursor, without gaps or duplicates."""

import asyncio
from typing import Any

import pytest

from farsteer.faces.events.options import EventLimits
from tests.faces.events.clients import CLIENTS, TRANSPORTS, javascript, python
from tests.faces.events.fake_hub import FakeHub
from tests.faces.events.raw_client import raw_client
from tests.faces.events.serving import engine, serving
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_resuming_while_events_are_published(client: str, transport: str) -> None:
    fake = FakeHub()
    fake.publish(*range(1000))
    numbers = iter(range(1000, 100_000))
    # Published during each read, before and after its snapshot.
    fake.store.before_read = lambda: fake.publish(next(numbers), next(numbers))
    fake.store.after_read = lambda: fake.publish(next(numbers))
    auth = {"token": fake.tokens.issue(), "since": "e1-100"}
    async with serving(fake.hub) as (_, url), CLIENTS[client](url, transport, auth) as received:
        assert (await received.until("ready"))["resume"] == "ok"
        await received.until("event", 900)
        last = next(numbers)
        fake.publish(last)
        assert await received.until_number(last) == list(range(100, last + 1))
        kinds = [kind for kind, _ in received.log]
        assert kinds.index("ready") < kinds.index("event")


@pytest.mark.parametrize("since", ["e1-11", "e2-5", "-", "", "nonsense", "e1-999999999999999999999", "e1-"])
async def test_a_cursor_the_hub_cannot_serve_is_a_gap(since: str) -> None:
    fake = FakeHub()
    fake.publish(*range(10))
    auth = {"token": fake.tokens.issue(), "since": since}
    async with serving(fake.hub) as (_, url), python(url, "websocket", auth) as received:
        ready = await received.until("ready")
        assert (ready["resume"], ready["cursor"]) == ("gap", "e1-10")
        fake.publish(10)
        assert await received.until_number(10) == [10]


async def test_a_cursor_below_what_is_kept_is_a_gap() -> None:
    fake = FakeHub()
    fake.publish(*range(10))
    fake.store.lowest = 5
    async with serving(fake.hub) as (_, url):
        token = fake.tokens.issue()
        async with python(url, "websocket", {"token": token, "since": "e1-4"}) as received:
            assert (await received.until("ready"))["resume"] == "gap"
        async with python(url, "websocket", {"token": token, "since": "e1-5"}) as received:
            assert (await received.until("ready"))["resume"] == "ok"
            assert await received.until_number(9) == [5, 6, 7, 8, 9]


async def test_filters_apply_to_stored_and_live_events() -> None:
    fake = FakeHub()
    other = "22222222-2222-4222-8222-222222222222"

    def publish(number: int) -> None:
        fake.publish(number)
        fake.publish(-number, subject=other)
        fake.publish({"title": number}, type="session-updated")
        fake.publish({"title": number}, type="session-updated", subject=other)

    for number in range(1, 301):
        publish(number)
    auth: dict[str, Any] = {"token": fake.tokens.issue(), "since": "e1-0"}
    async with serving(fake.hub) as (_, url):
        session = {**auth, "sessionId": other, "types": ["message-received"]}
        types = {**auth, "types": ["session-updated"]}
        async with (
            python(url, "websocket", session) as of_session,
            python(url, "websocket", types) as of_type,
        ):
            await of_session.until("event", 300)
            await of_type.until("event", 600)
            publish(301)
            assert await of_session.until_number(-301) == [-number for number in range(1, 302)]
            await of_type.until("event", 602)
            assert {event["type"] for event in of_type.events} == {"session-updated"}
            assert len(of_type.events) == 602


async def test_a_client_that_stops_reading_is_aborted_and_resumes_while_others_continue() -> None:
    fake = FakeHub()
    token = fake.tokens.issue()
    limits = EventLimits(soft_limit=32 * 1024, hard_limit=256 * 1024)
    text = "x" * 1000
    async with (
        serving(fake.hub, limits) as (live_events, url),
        python(url, "websocket", {"token": token}) as other,
    ):
        async with raw_client(url, {"token": token}) as slow:
            assert (await slow.event())[0] == "ready"
            await other.until("ready")
            clients = tuple(engine(live_events).connections.values())
            most = 0
            count = 0
            while fake.metrics.clients_cut == 0:
                fake.publish([count, text], [count + 1, text])
                count += 2
                await asyncio.sleep(0)
                most = max(most, *(client.buffered_bytes for client in clients))
                assert count < 5000
            assert most < limits.hard_limit + 16 * 1024
            fake.publish([count, text])
            await eventually(lambda: len(live_events.subscriptions) == 1)
            # What was sent already still arrives, then the connection is closed.
            last = None
            try:
                while True:
                    _, event = await slow.event()
                    last = event
            except (EOFError, ConnectionError):
                assert last is not None
        await other.until("event", count + 1)
        assert [number for number, _ in other.numbers] == list(range(count + 1))
        await eventually(lambda: len(engine(live_events).connections) == 1)
        async with raw_client(url, {"token": token, "since": last["cursor"]}) as again:
            assert (await again.event())[1]["resume"] == "ok"
            for number in range(last["message"][0] + 1, count + 1):
                assert (await again.event())[1]["message"][0] == number
        assert fake.metrics.clients_cut == 1


async def test_a_polling_client_that_stops_polling_is_aborted() -> None:
    import json

    import httpx

    fake = FakeHub()
    limits = EventLimits(soft_limit=32 * 1024, hard_limit=256 * 1024)
    async with serving(fake.hub, limits) as (live_events, url), httpx.AsyncClient(base_url=url) as http:
        path = "/socket.io/?EIO=4&transport=polling"
        sid = json.loads((await http.get(path)).text[1:])["sid"]
        path += f"&sid={sid}"
        await http.post(path, content=f"40/events,{json.dumps({'token': fake.tokens.issue()})}")
        await http.get(path)
        for number in range(400):
            fake.publish([number, "x" * 1000])
            await asyncio.sleep(0)
        assert fake.metrics.clients_cut == 1
        await eventually(lambda: not engine(live_events).connections and not engine(live_events).sockets)
        assert (await http.get(path)).status_code == 400
        assert fake.metrics.clients == 0


async def test_a_slow_client_that_catches_up_is_sent_only_as_much_as_it_reads() -> None:
    fake = FakeHub()
    fake.publish(*([number, "x" * 1000] for number in range(3000)))
    limits = EventLimits(soft_limit=32 * 1024, hard_limit=256 * 1024, page_size=50)
    auth = {"token": fake.tokens.issue(), "since": "e1-0"}
    async with serving(fake.hub, limits) as (live_events, url), raw_client(url, auth) as slow:
        await slow.event()
        (client,) = engine(live_events).connections.values()
        await eventually(lambda: client.is_behind)
        for number in range(3000):
            assert (await slow.event())[1]["message"][0] == number
            assert client.buffered_bytes < 160 * 1024
            if number % 10 == 0:
                fake.publish([3000 + number // 10, "x" * 1000])
        for number in range(3000, 3300):
            assert (await slow.event())[1]["message"][0] == number
        assert fake.metrics.clients_cut == 0


async def test_a_client_that_stalls_while_it_catches_up_is_aborted() -> None:
    fake = FakeHub()
    fake.publish(*([number, "x" * 1000] for number in range(3000)))
    limits = EventLimits(soft_limit=32 * 1024, hard_limit=256 * 1024, page_size=50, stall_timeout=0.1)
    auth = {"token": fake.tokens.issue(), "since": "e1-0"}
    async with serving(fake.hub, limits) as (live_events, url), raw_client(url, auth):
        await eventually(lambda: fake.metrics.clients_cut == 1)
        await eventually(lambda: not engine(live_events).connections)


async def test_the_javascript_client_reconnects_and_resumes() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (live_events, url):
        auth = {"token": fake.tokens.issue(), "since": "e1-0", "follow": True}
        async with javascript(url, "websocket", auth) as received:
            await received.until("ready")
            fake.publish(*range(50))
            await received.until_number(49)
            (client,) = engine(live_events).connections.values()
            client.abort()
            fake.publish(*range(50, 100))
            await received.until("ready", 2)
            fake.publish(100)
            assert await received.until_number(100) == list(range(101))
            assert received.of("disconnect") == ["transport close"]
