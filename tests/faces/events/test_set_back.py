"""Clients of a hub whose database was set back: a cursor says `gap`, and never skips what is missing in silence."""

import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from farsteer.client import AsyncClient, Gap
from farsteer.core.api import AuthRequest
from tests.faces.events.clients import python
from tests.faces.events.sse_client import subscribed
from tests.support.stack import OWNER, Account, Stack, farsteer

pytestmark = pytest.mark.slow


async def jwt(stack: Stack) -> str:
    return (await stack.hub.tokens.exchange(AuthRequest(access_token=OWNER))).token


async def last_cursor(stack: Stack) -> str:
    async with subscribed(stack.url, await jwt(stack)) as stream:
        return (await stream.next())[2]["cursor"]


async def resumed(stack: Stack, cursor: str) -> dict[str, str]:
    """How each kind of client is told that it resumes from the cursor."""
    found: dict[str, str] = {}
    async with subscribed(stack.url, await jwt(stack), {"Last-Event-ID": cursor}) as stream:
        found["server-sent events"] = (await stream.next())[2]["resume"]
    auth = {"token": await jwt(stack), "since": cursor}
    async with python(stack.url, "websocket", auth) as received:
        found["Socket.IO"] = (await received.until("ready"))["resume"]
    return found


GAP = {"server-sent events": "gap", "Socket.IO": "gap"}
OK = {"server-sent events": "ok", "Socket.IO": "ok"}


class SetBack:
    """A home whose hub.db is set back by two turns. The runner's journal is not."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.session = ""
        self.cursor = ""
        """The last one of before."""
        self.early_cursor = ""
        """The last one that the restored database has too."""
        self.log: list[Any] = []

    async def play(self) -> None:
        async with farsteer(self.home) as stack:
            me = await stack.sign_in()
            self.session = await stack.create(me)
            await me.turn(self.session, "one")
            self.early_cursor = await last_cursor(stack)
        for name in ("hub.db", "hub.epoch"):
            shutil.copy(self.home / name, self.home.parent / name)
        async with farsteer(self.home) as stack:
            assert await resumed(stack, self.early_cursor) == OK
            me = await stack.sign_in()
            await me.turn(self.session, "two")
            self.log = await me.turn(self.session, "three")
            self.cursor = await last_cursor(stack)

    def set_back(self, *names: str) -> None:
        for name in names:
            shutil.copyfile(self.home.parent / name, self.home / name)


async def whole(me: Account, session: str) -> list[Any]:
    log = await me.messages(session, limit=200)
    assert [entry["seq"] for entry in log] == list(range(1, len(log) + 1))
    return log


async def test_a_copied_database_says_gap_to_every_client(home: Path) -> None:
    before = SetBack(home)
    await before.play()
    before.set_back("hub.db")
    async with farsteer(home) as stack:
        assert await resumed(stack, before.cursor) == GAP
        assert await resumed(stack, before.early_cursor) == GAP
        async with AsyncClient(stack.url, OWNER) as client:
            assert isinstance(await anext(client.events(since=before.cursor)), Gap)
        me = await stack.sign_in()
        log = await me.turn(before.session, "four")
        assert len(await whole(me, before.session)) == len(log) > len(before.log)
        now = await last_cursor(stack)
        assert await resumed(stack, now) == OK
    async with farsteer(home) as stack:
        assert await resumed(stack, now) == OK, "a restart begins no epoch"


async def test_a_runner_tells_what_a_snapshot_of_the_disk_hides(home: Path) -> None:
    """Everything of the hub was set back, so only the runner knows it."""
    before = SetBack(home)
    await before.play()
    before.set_back("hub.db", "hub.epoch")
    async with farsteer(home, with_runner=False) as stack, AsyncExitStack() as clients:
        earlier = stack.hub.store.epoch
        auth = {"token": await jwt(stack)}
        live = await clients.enter_async_context(python(stack.url, "websocket", auth))
        late = await clients.enter_async_context(
            python(stack.url, "websocket", {**auth, "since": before.early_cursor})
        )
        assert (await live.until("ready"))["resume"] == "none"
        assert (await late.until("ready"))["resume"] == "ok"
        await stack.start_runner()
        assert stack.hub.store.epoch != earlier
        # Who had resumed may have missed something. Who began here goes on.
        assert (await late.until("closed"))["code"] == "unavailable"
        assert await resumed(stack, before.early_cursor) == GAP
        assert await resumed(stack, before.cursor) == GAP
        me = await stack.sign_in()
        await me.turn(before.session, "four")
        await whole(me, before.session)
        assert live.events[-1]["cursor"].startswith(stack.hub.store.epoch)
        assert not live.of("closed")


async def test_a_cursor_that_a_client_invents_concerns_nobody_else(home: Path) -> None:
    async with farsteer(home, with_runner=False) as stack:
        epoch = stack.hub.store.epoch
        assert await resumed(stack, f"{epoch}-999999") == GAP
        assert stack.hub.store.epoch == epoch
        assert await resumed(stack, f"{epoch}-0") == OK
