"""Put an older database back, or delete one: nothing runs twice, every message has an outcome, and sessions go on."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from farsteer import AsyncClient
from farsteer.core import events as ev
from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.events import Entry, SessionStatus, TurnEndReason
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import ItemState
from tests.promises.station import SECONDS, Station, machine_is
from tests.promises.test_nothing_is_lost import log_of, until_logged
from tests.support.eventually import eventually

pytestmark = pytest.mark.faults


def copy_online(database: Path, copy: Path) -> None:
    """Copy a database that is in use, as `sqlite3 FILE .backup` does."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def put_back(copy: Path, database: Path) -> None:
    remove(database)
    shutil.copyfile(copy, database)


def remove(database: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def command(name: str) -> str:
    return f"run echo {name} >> ran.txt"


def runs(station: Station) -> Counter[str]:
    """Return how often each command ran."""
    ran = station.desk / "ran.txt"
    return Counter(ran.read_text().split() if ran.exists() else ())


def outcomes(entries: list[Entry]) -> dict[str, list[ItemState]]:
    found: dict[str, list[ItemState]] = {}
    for entry in entries:
        if isinstance(entry.content, ev.QueueUpdate) and entry.content.state.final:
            found.setdefault(entry.content.item_id, []).append(entry.content.state)
    return found


def turn_ends(entries: list[Entry]) -> dict[str, list[TurnEndReason]]:
    found: dict[str, list[TurnEndReason]] = {}
    for entry in entries:
        if isinstance(entry.content, ev.TurnStart):
            found.setdefault(entry.content.turn_id, [])
        if isinstance(entry.content, ev.TurnEnd):
            found.setdefault(entry.content.turn_id, []).append(entry.content.reason)
    return found


async def has_settled(client: AsyncClient, session_id: str, *items: str) -> None:
    """Wait until the log has an outcome of each item and nothing waits."""

    async def settled() -> bool:
        known = outcomes(await log_of(client, session_id))
        return all(item in known for item in items) and await client.queue(session_id) == []

    await eventually(settled, SECONDS)


async def works(client: AsyncClient, session_id: str, remembered: str) -> None:
    """The session takes messages, and its agent has its conversation."""
    session = client.attach(session_id)
    assert remembered in str(await session.ask("history"))
    await client.abort(session_id)
    await client.stop(session_id)
    assert (await client.session(session_id)).status is SessionStatus.STOPPED
    await client.resume(session_id)
    assert remembered in str(await session.ask("history"))


@pytest.mark.parametrize("online", [True, False], ids=["online backup", "copy of a stopped home"])
async def test_an_older_runner_db_runs_nothing_again(
    station: Station, tmp_path: Path, *, online: bool
) -> None:
    client, database, copy = station.client(), tmp_path / "runner" / "runner.db", tmp_path / "copy.db"
    session = await client.start(station.desk, agent="demo", permission_mode=PermissionMode.YOLO)
    await session.ask("remember the dolphin")
    items = [(await session.send(text)).id for text in ("slow 20", command("a"), command("b"))]
    # The copy has one turn under way and two messages that wait.
    await until_logged(client, session.id, ev.TurnStart, 2)
    await until_logged(client, session.id, ev.UserMessage, 2)
    if online:
        copy_online(database, copy)
    else:
        await station.kill(station.runner, signal.SIGTERM)
        shutil.copyfile(database, copy)
        await station.start_runner()
    await has_settled(client, session.id, *items)
    await session.ask(command("c"))
    hanging = (await session.send("hang")).id
    waiting = (await session.send(command("d"))).id
    await hangs(client, session.id, hanging)
    await station.kill(station.runner)
    put_back(copy, database)
    await station.start_runner()
    await has_settled(client, session.id, *items, hanging, waiting)
    entries = await log_of(client, session.id)
    found = outcomes(entries)
    assert all(len(states) == 1 for states in found.values()), found
    assert found[waiting] == [ItemState.UNKNOWN], "its text is not in the older journal"
    assert all(len(reasons) == 1 for reasons in turn_ends(entries).values()), turn_ends(entries)
    assert [*turn_ends(entries).values()][-1] == [TurnEndReason.LOST]
    await works(client, session.id, "dolphin")
    assert runs(station) == Counter("abc")


async def hangs(client: AsyncClient, session_id: str, item_id: str) -> None:
    async def is_delivered() -> bool:
        return item_id in outcomes(await log_of(client, session_id))

    await eventually(is_delivered, SECONDS)


@pytest.mark.parametrize("confirmed", [False, True], ids=["accepted", "queued"])
async def test_an_older_hub_db_is_settled_by_the_runner_s_word(
    station: Station, tmp_path: Path, *, confirmed: bool
) -> None:
    client, database, copy = station.client(), tmp_path / "hub" / "hub.db", tmp_path / "copy.db"
    session = await client.start(station.desk, agent="demo", permission_mode=PermissionMode.YOLO)
    await session.ask("remember the dolphin")
    if not confirmed:
        await station.kill(station.runner, signal.SIGTERM)
        await machine_is(client, active=False)
    texts = (*(["slow 20"] if confirmed else []), command("a"), command("b"))
    items = [(await session.send(text)).id for text in texts]
    if confirmed:
        await until_logged(client, session.id, ev.QueueUpdate, 5)
    copy_online(database, copy)
    if not confirmed:
        await station.start_runner()
    await has_settled(client, session.id, *items)
    await session.ask(command("c"))
    await station.kill(station.hub)
    put_back(copy, database)
    await station.start_hub()
    client = station.client()
    await machine_is(client, active=True)
    await has_settled(client, session.id, *items)
    found = outcomes(await log_of(client, session.id))
    assert [found[item] for item in items] == [[ItemState.DELIVERED]] * len(items)
    with pytest.raises(Conflict) as refusal:
        await client.cancel(session.id, items[-1])
    assert (refusal.value.code, refusal.value.details["state"]) == (ErrorCode.NOT_CANCELLABLE, "delivered")
    await works(client, session.id, "dolphin")
    assert runs(station) == Counter("abc")


async def test_a_lost_journal_leaves_sessions_that_go_on(station: Station, tmp_path: Path) -> None:
    client = station.client()
    session = await client.start(station.desk, agent="demo", permission_mode=PermissionMode.YOLO)
    await session.ask("remember the dolphin")
    hanging = (await session.send("hang")).id
    waiting = (await session.send(command("waits"))).id
    await hangs(client, session.id, hanging)
    await until_logged(client, session.id, ev.QueueUpdate, 5)
    await station.kill(station.runner)
    await machine_is(client, active=False)
    new = (await session.send(command("new"))).id
    remove(tmp_path / "runner" / "runner.db")
    await station.start_runner()
    await has_settled(client, session.id, hanging, waiting, new)
    entries = await log_of(client, session.id)
    found = outcomes(entries)
    assert (found[waiting], found[new]) == ([ItemState.UNKNOWN], [ItemState.DELIVERED])
    assert [TurnEndReason.LOST] in turn_ends(entries).values()
    assert (await client.session(session.id)).permission_mode is PermissionMode.YOLO
    await works(client, session.id, "dolphin")
    assert runs(station) == {"new": 1}


async def test_a_cancelled_message_is_in_the_log_once_whoever_is_killed(station: Station) -> None:
    client = station.client()
    session = await client.start(station.desk, agent="demo")
    await session.ask("hello")
    await station.kill(station.runner)
    await machine_is(client, active=False)
    item = (await session.send("never mind")).id
    await client.cancel(session.id, item)
    await station.kill(station.hub)
    await station.start_hub()
    client = station.client()
    await station.start_runner()
    await has_settled(client, session.id, item)
    for _ in range(2):
        await station.kill(station.runner)
        await station.start_runner()
        assert str(await client.attach(session.id).ask("hello"))
    entries = await log_of(client, session.id)
    assert outcomes(entries)[item] == [ItemState.CANCELLED]
    (update,) = [
        e.content for e in entries if isinstance(e.content, ev.QueueUpdate) and e.content.item_id == item
    ]
    assert update.item is not None
    assert (update.item.text, update.reason) == ("never mind", "cancelled by the sender")
    await client.cancel(session.id, item)
