"""Invalid packets, too much data and silence close the connection and affect nothing else."""

import asyncio
import json
import logging

import httpx
import pytest

from farsteer.faces.events.options import EventLimits
from farsteer.faces.events.packets import JsonCodec
from tests.faces.events.fake_hub import FakeHub
from tests.faces.events.raw_client import raw_client, raw_websocket
from tests.faces.events.serving import engine, serving
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

POLLING = "/socket.io/?EIO=4&transport=polling"

INVALID_PACKETS = [
    "",
    "x",
    "7",
    "0",
    "2",
    "4",
    "4x",
    "49/events,[]",
    "42/events,",
    "42/events,{}",
    "42/events,[]",
    "42/events,[5]",
    '42/events,[["auth"]]',
    '42/events,["connect",{},{"token":"x"}]',
    '42/events,["disconnect"]',
    "42/events,[not json",
    "42/events," + "[" * 5000,
    "451-/events,[]",
    '42/events,99999999999999999999["auth"]' + "9" * 200,
    "b4AAAA",
    "44/events,{}",
]


@pytest.mark.parametrize("text", INVALID_PACKETS, ids=lambda text: text[:30] or "empty")
async def test_an_invalid_packet_closes_only_its_connection(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeHub()
    auth = {"token": fake.tokens.issue()}
    async with serving(fake.hub) as (live_events, url), raw_client(url, auth) as good:
        await good.event()
        async with raw_client(url, auth) as bad:
            await bad.event()
            bad.send(text)
            await bad.wait_closed()
        await eventually(lambda: len(engine(live_events).connections) == 1)
        fake.publish(1)
        assert await good.numbers(1) == [1]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("text", ["x", "4x", "42/events,[]", "42/events,[5]", "b4AAAA", "45-", "\x1e"])
async def test_an_invalid_packet_in_a_poll_closes_the_client_and_logs_nothing(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (live_events, url), httpx.AsyncClient(base_url=url) as http:
        sid = json.loads((await http.get(POLLING)).text[1:])["sid"]
        path = f"{POLLING}&sid={sid}"
        await http.post(path, content=f"40/events,{json.dumps({'token': fake.tokens.issue()})}")
        await http.get(path)
        assert (await http.post(path, content=text.encode())).status_code in (200, 400)
        await eventually(lambda: not engine(live_events).connections)
        assert (await http.get(path)).status_code == 400
        assert len(live_events.subscriptions) == 0
    assert [record for record in caplog.records if record.levelno >= logging.ERROR and record.exc_info] == []


@pytest.mark.parametrize("opcode", [0x81, 0x82])
async def test_a_frame_over_the_limit_closes_the_connection_before_it_is_read(opcode: int) -> None:
    fake = FakeHub()
    async with serving(fake.hub, EventLimits(message_size=4096)) as (live_events, url):
        async with raw_client(url, {"token": fake.tokens.issue()}) as raw:
            await raw.event()
            raw.frame(opcode, b"4" * 5000)
            await raw.wait_closed()
        await eventually(lambda: not engine(live_events).connections)


async def test_a_body_over_the_limit_is_refused() -> None:
    fake = FakeHub()
    async with (
        serving(fake.hub, EventLimits(message_size=4096)) as (_, url),
        httpx.AsyncClient(base_url=url) as http,
    ):
        sid = json.loads((await http.get(POLLING)).text[1:])["sid"]
        answer = await http.post(f"{POLLING}&sid={sid}", content="4" * 5000)
        assert answer.status_code == 400


async def test_unknown_events_are_ignored() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (_, url), raw_client(url, {"token": fake.tokens.issue()}) as raw:
        await raw.event()
        raw.send('42/events,["ready",{}]')
        raw.send('42/events,1["event",{"type":"message-received"}]')
        raw.send('43/events,7["an ack of nothing"]')
        raw.send('42/other,["event"]')
        raw.send("41/other,")
        fake.publish(1)
        assert await raw.numbers(1) == [1]


async def test_a_client_that_does_not_authenticate_in_time_is_disconnected() -> None:
    fake = FakeHub()
    limits = EventLimits(connect_timeout=0.2)
    async with serving(fake.hub, limits) as (live_events, url), httpx.AsyncClient(base_url=url) as http:
        await http.get(POLLING)
        async with raw_websocket(url) as silent, raw_websocket(url) as refused:
            refused.send('40/events,{"token":"wrong"}')
            assert (await refused.receive()).startswith("44/events,")
            await silent.wait_closed()
            await refused.wait_closed()
        await eventually(lambda: not engine(live_events).connections and not engine(live_events).sockets)


async def test_a_client_that_leaves_the_namespace_must_close_its_connection() -> None:
    fake = FakeHub()
    async with (
        serving(fake.hub, EventLimits(close_timeout=0.2)) as (live_events, url),
        raw_client(url, {"token": fake.tokens.issue()}) as raw,
    ):
        await raw.event()
        raw.send("41/events,")
        await eventually(lambda: len(live_events.subscriptions) == 0)
        await raw.wait_closed()


async def test_a_client_that_does_not_read_the_closed_event_is_aborted() -> None:
    fake = FakeHub()
    limits = EventLimits(soft_limit=16 * 1024, close_timeout=0.2)
    async with serving(fake.hub, limits) as (live_events, url):
        async with raw_client(url, {"token": fake.tokens.issue(token_id="a")}) as raw:
            await raw.event()
            fake.publish(*(["x" * 1000] for _ in range(500)))
            (client,) = engine(live_events).connections.values()
            await eventually(lambda: client.is_behind)
            fake.tokens.revoke("a")
            await eventually(lambda: not engine(live_events).connections)
        await eventually(lambda: not live_events.socketio.server.environ)


async def test_a_second_connect_to_the_namespace_is_refused_and_the_first_continues() -> None:
    fake = FakeHub()
    token = fake.tokens.issue()
    async with serving(fake.hub) as (live_events, url), raw_client(url, {"token": token}) as raw:
        await raw.event()
        raw.send(f"40/events,{json.dumps({'token': token})}")
        assert (await raw.receive()).startswith("44/events,")
        fake.publish(1)
        assert await raw.numbers(1) == [1]
        assert len(live_events.subscriptions) == 1


async def test_tokens_are_not_logged_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fake = FakeHub()
    token = fake.tokens.issue()
    async with serving(fake.hub) as (_, url), raw_client(url, {"token": token}) as raw:
        await raw.event()
        raw.send(f'42/events,1["auth",{json.dumps({"token": token})}]')
        assert (await raw.receive()).startswith("43/events,1")
        raw.send("nonsense")
        await raw.wait_closed()
    ours = [
        record for record in caplog.records if record.name.startswith(("farsteer", "socketio", "engineio"))
    ]
    assert token not in "".join(record.getMessage() for record in ours)


async def test_a_client_that_answers_no_pings_is_disconnected() -> None:
    fake = FakeHub()
    limits = EventLimits(ping_interval=0.1, ping_timeout=0.2)
    async with serving(fake.hub, limits) as (live_events, url), httpx.AsyncClient(base_url=url) as http:
        sid = json.loads((await http.get(POLLING)).text[1:])["sid"]
        path = f"{POLLING}&sid={sid}"
        await http.post(path, content=f"40/events,{json.dumps({'token': fake.tokens.issue()})}")
        async with raw_client(url, {"token": fake.tokens.issue()}):
            assert len(live_events.subscriptions) == 2
            async with asyncio.timeout(5):
                await eventually(lambda: len(live_events.subscriptions) == 0)


@pytest.mark.parametrize("depth", [65, 900, 100_000])
def test_a_packet_that_is_nested_too_deeply_is_not_read(depth: int) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        JsonCodec.loads("[" * depth + "]" * depth)
