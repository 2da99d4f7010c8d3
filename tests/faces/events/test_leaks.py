"""Whatever a client sends and wherever it stops, nothing of it is left behind."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import httpx
import pytest

from farsteer.faces.events.app import LiveEvents
from farsteer.faces.events.options import EventLimits
from farsteer.hub.settings import Limits
from farsteer.server import embedded_server
from farsteer.server.uvicorn_protocols import SharedState
from tests.faces.events.fake_hub import FakeHub
from tests.faces.events.raw_client import connection, raw_client, raw_websocket
from tests.faces.events.serving import engine, serving
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

POLLING = "/socket.io/?EIO=4&transport=polling"
SEPARATOR = "\x1e"
LIMITS = EventLimits(connect_timeout=1.0, close_timeout=0.5, ping_interval=0.5, ping_timeout=0.5)


def tables(fake: FakeHub, live_events: LiveEvents, shared: SharedState) -> dict[str, int]:
    """The sizes of everything in which a client can have an entry."""
    server, eio = live_events.socketio.server, engine(live_events)
    manager = server.manager
    found = {
        "environ": server.environ,
        "binary packets": server._binary_packet,
        "rooms": manager.rooms,
        "pending connects": manager.pending_connect,
        "pending disconnects": manager.pending_disconnect,
        "callbacks": manager.callbacks,
        "manager": manager.eio_to_sid,
        "sockets": eio.sockets,
        "connections": eio.connections,
        "unauthenticated": eio.unauthenticated,
        "accepted": live_events.socketio._accepted,
        "subscribers": live_events.socketio._subscribers,
        "streams": live_events.sse._streams,
        "subscriptions": live_events.subscriptions,
        "catch-up": live_events.subscriptions._catch_up_tasks,
        "fan-out": live_events.subscriptions._fanout,
        "presence": fake.presence.online,
        "namespaces": fake.sockets._open,
        "slow readers": fake.slow_readers._waiting,
        "requests": shared.tasks,
        "tcp": shared.connections,
        "tcp unauthenticated": shared.clients,
        "tcp authenticated": shared.clients._authenticated,
    }
    sizes = {name: len(table) for name, table in found.items()}
    # The one task left is python-engineio's own.
    sizes["tasks"] = max(len(eio._tasks) - 1, 0)
    return {name: size for name, size in sizes.items() if size}


class Attacker:
    def __init__(self, url: str, http: httpx.AsyncClient, token: str) -> None:
        self.url = url
        self.http = http
        self.connect = f"40/events,{json.dumps({'token': token})}"

    async def handshake(self) -> str:
        """Return the path of a new polling session."""
        sid = json.loads((await self.http.get(POLLING)).text[1:])["sid"]
        return f"{POLLING}&sid={sid}"

    async def post(self, *packets: str) -> None:
        await self.http.post(await self.handshake(), content=SEPARATOR.join(packets).encode())


async def close_then_connect(by: Attacker) -> None:
    await by.post("1", "40/events,")
    await by.post("1", by.connect)
    await by.post("1", "1", by.connect, '42/events,["auth",{}]')


async def connect_then_close(by: Attacker) -> None:
    await by.post(by.connect, "1")
    await by.post(by.connect, "1", by.connect)
    await by.post(by.connect, "41/events,", by.connect, "41/events,")


async def connect_without_a_token(by: Attacker) -> None:
    await by.post("40/events,")
    await by.post("40/events,{}", '40/events,{"token":5}', '40/events,{"token":"wrong"}')


async def connect_to_many_namespaces(by: Attacker) -> None:
    await by.post(*(f"40/n{number},{{}}" for number in range(16)))
    async with raw_websocket(by.url) as raw:
        for number in range(200):
            raw.send(f"40/n{number},{{}}")
        await raw.receive()


async def attachments_that_never_come(by: Attacker) -> None:
    await by.post(by.connect, '451-/events,["auth",{"_placeholder":true,"num":0}]')
    await by.post("451-/events,[]")
    async with raw_client(by.url, {"token": json.loads(by.connect.partition(",")[2])["token"]}) as raw:
        await raw.event()
        raw.send('451-/events,["auth",{"_placeholder":true,"num":0}]')
        await raw.wait_closed()


async def handshakes_that_are_abandoned(by: Attacker) -> None:
    for _ in range(20):
        await by.handshake()
    async with raw_websocket(by.url):
        pass
    head = f"GET {POLLING} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    for count in (1, 1, 1, 30):
        async with connection(by.url) as (_, writer):
            writer.write(head * count)
            await writer.drain()


async def connected_clients_that_never_poll_again(by: Attacker) -> None:
    for polls in range(3):
        path = await by.handshake()
        await by.http.post(path, content=by.connect)
        for _ in range(polls):
            await by.http.get(path)


async def upgrades_that_are_not_finished(by: Attacker) -> None:
    for packets in ([], ["2probe"], ["2probe", "x"], ["2probe", "3"], ["5"], ["1"], ["2probe", "5"]):
        path = await by.handshake()
        await by.http.post(path, content=by.connect)
        async with raw_websocket(by.url, "&" + path.rpartition("&")[2]) as raw:
            for packet in packets:
                raw.send(packet)


async def polls_that_are_left(by: Attacker) -> None:
    path = await by.handshake()
    for head in (f"GET {path}", f"POST {path}", f"GET {POLLING}"):
        async with connection(by.url) as (_, writer):
            writer.write(f"{head} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n1".encode())
            await writer.drain()


async def too_many_packets(by: Attacker) -> None:
    await by.post(*["3"] * 17)
    await by.post(*["40/events,"] * 5000)


ATTACKS: list[Callable[[Attacker], Awaitable[None]]] = [
    close_then_connect, connect_then_close, connect_without_a_token, connect_to_many_namespaces,
    attachments_that_never_come, handshakes_that_are_abandoned, connected_clients_that_never_poll_again,
    upgrades_that_are_not_finished, polls_that_are_left, too_many_packets,
]  # fmt: skip


@pytest.fixture
def shared_states(monkeypatch: pytest.MonkeyPatch) -> list[SharedState]:
    """The shared state of each server that is started."""
    states: list[SharedState] = []

    def make(*arguments: object) -> SharedState:
        states.append(SharedState(*arguments))  # pyright: ignore[reportArgumentType]
        return states[-1]

    monkeypatch.setattr(embedded_server, "SharedState", make)
    return states


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
async def test_nothing_is_left_after(
    attack: Callable[[Attacker], Awaitable[None]],
    shared_states: list[SharedState],
    caplog: pytest.LogCaptureFixture,
) -> None:
    fake = FakeHub()
    async with serving(fake.hub, LIMITS) as (live_events, url):
        async with httpx.AsyncClient(base_url=url) as http:
            for _ in range(2):
                await attack(Attacker(url, http, fake.tokens.issue()))
        await eventually(lambda: not tables(fake, live_events, shared_states[0]), 10)
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record for record in lines if record.exc_info] == []
    assert len(lines) <= 1


async def test_handshakes_on_one_connection_are_limited_like_connections() -> None:
    fake = FakeHub(Limits(connections=10, address_connections=5))
    token = fake.tokens.issue()
    async with (
        serving(fake.hub) as (live_events, url),
        httpx.AsyncClient(base_url=url) as http,
        raw_client(url, {"token": token}) as known,
    ):
        await known.event()
        for _ in range(30):
            await http.get(POLLING)
        await eventually(lambda: len(engine(live_events).connections) == 6)
        fake.publish(1)
        assert await known.numbers(1) == [1]
        async with raw_client(url, {"token": token}) as newcomer:
            await newcomer.event()


async def test_a_large_body_is_refused_before_it_is_read() -> None:
    fake = FakeHub()
    async with (
        serving(fake.hub) as (_, url),
        httpx.AsyncClient(base_url=url) as http,
        connection(url) as (reader, writer),
    ):
        path = await Attacker(url, http, "").handshake()
        writer.write(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 400")
