"""HubConnection opens a hub once, tries again after a failure, and replaces the client after a disconnect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from farsteer.client.hub_client import HubClient
from farsteer.core.errors import Internal, Unauthorized
from farsteer.faces.hub_connection import HubConnection


class Hub:
    """Counts how often it is opened and closed, and fails with `error` if that is set."""

    def __init__(self) -> None:
        self.opened: list[Any] = []
        self.closed: list[Any] = []
        self.error: Exception | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[HubClient]:
        if self.error is not None:
            raise self.error
        client = cast("HubClient", object())
        self.opened.append(client)
        yield client
        self.closed.append(client)


async def test_the_hub_is_opened_once_and_closed() -> None:
    hub = Hub()
    connection = HubConnection(hub.open)
    assert hub.opened == []
    connection.connect()
    connection.connect()
    clients = await asyncio.gather(connection.client(), connection.client())
    assert hub.opened == [clients[0]] == [clients[1]] == [connection.current]
    assert hub.closed == []
    await connection.close()
    assert hub.closed == hub.opened
    connection.connect()
    await asyncio.sleep(0)
    assert len(hub.opened) == 1


async def test_a_failed_attempt_is_repeated_by_the_next_call() -> None:
    hub = Hub()
    connection = HubConnection(hub.open)
    for error, raised in ((Unauthorized("no token"), Unauthorized), (ValueError("a bug"), Internal)):
        hub.error = error
        with pytest.raises(raised):
            await connection.client()
    hub.error = None
    assert await connection.client() is connection.current
    await connection.close()


async def test_after_a_disconnect_a_new_client_is_opened() -> None:
    hub = Hub()
    connection = HubConnection(hub.open)
    await connection.disconnect()
    first = await connection.client()
    await connection.disconnect()
    assert hub.closed == [first]
    assert await connection.client() is not first
    await connection.close()
    assert hub.closed == hub.opened


async def test_waiting_until_opened_tells_whether_there_was_something_to_wait_for() -> None:
    hub = Hub()
    connection = HubConnection(hub.open)
    assert not await connection.wait_until_opened()
    connection.connect()
    assert await connection.wait_until_opened()
    assert hub.opened == [connection.current]
    assert not await connection.wait_until_opened()
    await connection.close()
