"""Clients without a token are limited in number, and never at the expense of those with one."""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from farsteer.server.connection_limit import ConnectionLimit
from farsteer.server.limits import ServerLimits
from tests.server.serving import EchoApp, RawClient, connected, frame, handshake, serving


class Client:
    aborted = False

    def abort(self) -> None:
        self.aborted = True


def add(limit: ConnectionLimit[Client], address: str | None = "a") -> Client:
    client = Client()
    assert limit.add(client, address)
    return client


def test_the_client_that_has_waited_longest_makes_room() -> None:
    limit: ConnectionLimit[Client] = ConnectionLimit(3, 10)
    first, second, _ = add(limit), add(limit, "b"), add(limit)
    limit.set_waiting(first)
    add(limit, "c")
    assert (first.aborted, second.aborted, len(limit)) == (False, True, 3)


def test_a_full_address_makes_room_among_its_own() -> None:
    limit: ConnectionLimit[Client] = ConnectionLimit(10, 2)
    other = add(limit, "b")
    first, second = add(limit), add(limit)
    add(limit)
    assert (other.aborted, first.aborted, second.aborted) == (False, True, False)


def test_a_client_that_is_served_is_not_aborted() -> None:
    limit: ConnectionLimit[Client] = ConnectionLimit(2, 10)
    clients = [add(limit), add(limit)]
    for client in clients:
        limit.set_busy(client)
    assert not limit.add(Client(), "b")
    limit.set_waiting(clients[1])
    add(limit)
    assert [client.aborted for client in clients] == [False, True]


def test_a_client_that_has_authenticated_leaves_the_count() -> None:
    limit: ConnectionLimit[Client] = ConnectionLimit(2, 1, open_total=4)
    first = add(limit)
    limit.set_authenticated(first)
    second = Client()
    limit.replace(first, second)
    third = add(limit)
    assert (first.aborted, third.aborted, len(limit)) == (False, False, 1)
    limit.set_authenticated(third)
    limit.set_authenticated(add(limit))
    limit.set_authenticated(add(limit))
    assert not limit.add(Client(), "b"), "four connections are open"
    limit.remove(second)
    limit.remove(second)
    assert limit.add(Client(), "b")


def test_an_address_without_limit_and_a_successor_are_counted_in_all() -> None:
    limit: ConnectionLimit[Client] = ConnectionLimit(3, 1)
    first, _, _ = (add(limit, None) for _ in range(3))
    successor = Client()
    limit.replace(first, successor)
    assert len(limit) == 3
    for _ in range(3):
        add(limit, None)
    assert successor.aborted


def test_nothing_is_left_behind() -> None:
    limit: ConnectionLimit[Client] = ConnectionLimit(5, 2)
    clients = [add(limit, address) for address in "aabcdeff"]
    for client in clients[3:6]:
        limit.set_authenticated(client)
    for client in clients:
        limit.remove(client)
        limit.set_waiting(client)
        limit.set_authenticated(client)
    assert not any(limit.__dict__[name] for name in ("_addresses", "_counted", "_authenticated", "_waiting"))


TOKEN = b"GET /token HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.slow
async def test_a_flood_of_connections_does_not_keep_out_or_cut_off_clients_with_a_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = ServerLimits(connections=10, address_connections=5)
    async with serving(EchoApp(), limits) as port, AsyncExitStack() as opened:
        known = await opened.enter_async_context(connected(port))
        known.send(TOKEN)
        assert (await known.response())[0] == 200
        flood = [await opened.enter_async_context(connected(port)) for _ in range(50)]
        newcomer = await opened.enter_async_context(connected(port))
        newcomer.send(TOKEN)
        assert (await newcomer.response())[0] == 200
        for client in flood[:46]:
            assert await client.wait_closed() == b""
        for client in (known, newcomer):
            client.send(TOKEN)
            assert (await client.response())[0] == 200
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.slow
async def test_websockets_without_a_token_are_counted_too() -> None:
    async with serving(EchoApp(), ServerLimits(address_connections=2)) as port, AsyncExitStack() as opened:
        sockets: list[RawClient] = []
        for _ in range(3):
            client = await opened.enter_async_context(connected(port))
            sockets.append(client)
            client.send(handshake())
            await client.reader.readuntil(b"\r\n\r\n")
            client.send(frame(0x81, b"x"))
            assert await client.reader.readexactly(3) == b"\x81\x01x"
        await sockets[0].wait_closed()
        sockets[2].send(frame(0x81, b"x"))
        assert await sockets[2].reader.readexactly(3) == b"\x81\x01x"


@pytest.mark.slow
async def test_when_no_files_are_left_a_newcomer_is_told_so() -> None:
    async with serving(EchoApp(), ServerLimits(open_connections=2)) as port, AsyncExitStack() as opened:
        for _ in range(2):
            client = await opened.enter_async_context(connected(port))
            client.send(TOKEN)
            await client.response()
        refused = await opened.enter_async_context(connected(port))
        assert await refused.error() == (503, "unavailable")
        await asyncio.wait_for(refused.wait_closed(), 5)


SERVER = """
import asyncio, resource, sys, uvloop
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from tests.server.serving import EchoApp, serving

async def main():
    async with serving(EchoApp()) as port:
        print(port, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

uvloop.run(main())
"""


@pytest.mark.slow
async def test_more_connections_than_open_files_do_not_stop_the_server() -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=Path(__file__).parents[2]
    )
    assert server.stdout is not None
    async with AsyncExitStack() as opened:
        port = int(await asyncio.wait_for(server.stdout.readline(), 20))
        for _ in range(600):
            await opened.enter_async_context(connected(port))
        for _ in range(20):
            client = await opened.enter_async_context(connected(port))
            client.send(TOKEN)
            assert (await client.response())[0] == 200
    _, errors = await asyncio.wait_for(server.communicate(b""), 20)
    assert errors == b""
