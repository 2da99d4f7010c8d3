"""A network between hub and runner that drops everything: no end is told, both connections stay half open."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from farsteer.core.events import QueueUpdate, SessionStatus, TurnEnd, TurnStart
from farsteer.core.queue import ItemState
from farsteer.link.messages import IDLE_TIMEOUT_SECONDS
from tests.support.daemons import Daemons
from tests.support.dropping_network import DroppingNetwork, Unavailable, namespace_network, proxy_network
from tests.support.eventually import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

NOTICED = IDLE_TIMEOUT_SECONDS + 10.0
"""Seconds after which the hub has given up a runner of which nothing arrives: the check is made every 4 s."""
BACK = 30.0
"""Seconds after which a runner is connected again: an attempt may take 10 s, and the delays are short by then."""
WORK = "run until test -e go; do sleep 0.05; done"


async def test_a_network_that_drops_every_packet_loses_and_doubles_nothing(
    tmp_path: Path, free_port: int
) -> None:
    async with AsyncExitStack() as opened:
        try:
            network = await opened.enter_async_context(namespace_network())
        except Unavailable as reason:
            pytest.skip(str(reason))
        await drop_everything(tmp_path, free_port, network)


async def test_a_proxy_that_forwards_nothing_loses_and_doubles_nothing(
    tmp_path: Path, free_port: int
) -> None:
    async with proxy_network(free_port) as network:
        await drop_everything(tmp_path, free_port, network)


async def drop_everything(root: Path, port: int, network: DroppingNetwork) -> None:
    async with Daemons(root, port, host=network.host) as daemons:
        runner = daemons.runner(hub=network.url(port), prefix=network.prefix).start()
        await daemons.wait_until_connected()
        client = daemons.client
        idle = await daemons.start_session()
        busy = (await client.start(daemons.directory, agent="demo", yolo=True)).id
        await daemons.say(idle, "before")
        sent: dict[str, set[str]] = {idle: set(), busy: set()}
        sent[busy].add((await client.send(busy, WORK)).id)
        await eventually(lambda: WORK in daemons.received(runner))
        await wait_for_status(daemons, busy, SessionStatus.WORKING)

        await network.drop()
        dropped = time.monotonic()
        for session, items in sent.items():
            # The hub takes the machine for connected and offers them to it.
            items.add((await client.send(session, f"say offered-{session}")).id)
        for session in sent:
            await wait_for_status(daemons, session, SessionStatus.UNREACHABLE)
        assert time.monotonic() - dropped < NOTICED
        assert await daemons.machine() is None
        for session, items in sent.items():
            items.add((await client.send(session, f"say waiting-{session}")).id)
        # A turn ends while nobody can be told.
        (daemons.directory / "go").touch()
        await runner.wait_for_log("the link to the hub is down")
        assert sorted(daemons.received(runner)) == sorted(["before", WORK]), "nothing else passed"

        await network.restore()
        restored = time.monotonic()
        await daemons.wait_until_connected()
        assert time.monotonic() - restored < BACK
        for session, items in sent.items():
            await daemons.wait_until_delivered(session, items)
            await wait_for_status(daemons, session, SessionStatus.IDLE)
            await check_log(daemons, session, items)
        expected = [f"{name}-{session}" for name in ("offered", "waiting") for session in sent]
        assert Counter(daemons.received(runner)) == Counter(["before", WORK, *expected])


async def wait_for_status(daemons: Daemons, session: str, status: SessionStatus) -> None:
    async def reached() -> bool:
        return (await daemons.client.session(session)).status is status

    await eventually(reached, 60)


async def check_log(daemons: Daemons, session: str, items: set[str]) -> None:
    """Every entry is there once, and so is the outcome of every message and the end of every turn."""
    log = [entry async for entry in daemons.client.messages(session)]
    assert [entry.seq for entry in log] == [*range(1, len(log) + 1)]
    contents = [entry.content for entry in log]
    delivered = Counter(
        one.item_id for one in contents if isinstance(one, QueueUpdate) and one.state is ItemState.DELIVERED
    )
    assert {delivered[item] for item in items} == {1}
    started = [one.turn_id for one in contents if isinstance(one, TurnStart)]
    assert started == [one.turn_id for one in contents if isinstance(one, TurnEnd)]
