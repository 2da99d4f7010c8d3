"""A row of hub.db that cannot be decoded is set aside, and everything else is served."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from farsteer.core import events as ev
from farsteer.core.queue import ItemState
from farsteer.hub.store.base import SessionFilter
from farsteer.hub.store.conformance import LogBuilder, StoreHarness
from farsteer.hub.store.conformance.harness import LINK, NAMESPACE, new_item
from farsteer.storage.quarantine import Quarantine
from tests.hub.store.factory import SqliteFactory

GARBAGE = b'{"id": \x00\xff'


def damage(harness: StoreHarness, statement: str, *values: object) -> None:
    assert isinstance(harness.factory, SqliteFactory)
    with closing(sqlite3.connect(harness.factory.path)) as db, db:
        assert db.execute(statement, (GARBAGE, *values)).rowcount > 0


def set_aside(harness: StoreHarness) -> list[tuple[str, str | None, bytes]]:
    assert isinstance(harness.factory, SqliteFactory)
    return [(row.table, row.session_id, row.body) for row in Quarantine(harness.factory.path).read()]


async def opened(tmp_path: Path) -> tuple[StoreHarness, LogBuilder, LogBuilder]:
    """A store with a session to be damaged and another one."""
    harness = await StoreHarness.open(SqliteFactory(tmp_path))
    logs = [await harness.create_session() for _ in range(2)]
    for log in logs:
        await harness.append(log, [log.add(ev.TitleUpdate(title="a title"))], state=True)
        await harness.append(log, log.add_messages(3))
    return harness, logs[0], logs[1]


@pytest.mark.parametrize("column", ["state", "spec"])
async def test_a_session_that_cannot_be_read_is_shown_with_what_is_left(tmp_path: Path, column: str) -> None:
    harness, bad, good = await opened(tmp_path)
    damage(harness, f"UPDATE sessions SET {column} = ? WHERE id = ?", bad.session_id)
    rows = await harness.store.list_sessions(NAMESPACE, SessionFilter(), limit=9, after=None)
    assert {row.id: (row.state.title, row.seq) for row in rows} == {
        bad.session_id: ("a title", 4), good.session_id: ("a title", 4),
    }  # fmt: skip
    assert set_aside(harness) == [("sessions", bad.session_id, GARBAGE)]
    assert await harness.seqs(bad) == [1, 2, 3, 4]
    await harness.append(bad, [bad.add(ev.TitleUpdate(title="another"))], state=True)
    assert (await harness.store.get_session(NAMESPACE, bad.session_id)).state.title == "another"
    await harness.store.close()


async def test_a_runner_goes_on_with_a_session_that_cannot_be_read(tmp_path: Path) -> None:
    harness, bad, _ = await opened(tmp_path)
    damage(harness, "UPDATE sessions SET state = ? WHERE id = ?", bad.session_id)
    result = await harness.append(bad, [bad.add(ev.TitleUpdate(title="another"))], state=True)
    assert (result.stored, result.last_seq) == (1, 5)
    assert set_aside(harness) == [("sessions", bad.session_id, GARBAGE)]
    damage(harness, "UPDATE sessions SET state = ? WHERE id = ?", bad.session_id)
    item = new_item()
    await harness.store.accept_item(NAMESPACE, bad.session_id, item)
    assert [one.id for one in await harness.store.claim_items(bad.session_id, LINK)] == [item.id]
    await harness.store.close()


async def test_commands_that_cannot_be_read_come_again_from_the_runner(tmp_path: Path) -> None:
    harness, bad, _ = await opened(tmp_path)
    commands = (ev.SlashCommand("test", "Run the tests"),)
    await harness.append(bad, [bad.add(ev.CommandsUpdate(commands=commands))], state=True)
    damage(harness, "UPDATE commands SET body = ? WHERE session_id = ?", bad.session_id)
    row = await harness.store.get_session(NAMESPACE, bad.session_id)
    assert (row.state.title, row.state.commands) == ("a title", ())
    assert set_aside(harness) == [("commands", bad.session_id, GARBAGE)]
    await harness.append(bad, [], state=True)
    assert (await harness.store.get_session(NAMESPACE, bad.session_id)).state.commands == commands
    await harness.store.close()


async def test_an_entry_that_cannot_be_read_becomes_a_notice(tmp_path: Path) -> None:
    harness, bad, _ = await opened(tmp_path)
    fork, _ = await harness.fork(bad)
    damage(harness, "UPDATE log SET body = ? WHERE subject = ? AND seq IN (2, 3)", bad.session_id)
    damage(harness, "UPDATE copies SET body = ? WHERE session_id = ? AND seq = 1", fork.session_id)
    for log, lost in ((bad, {2, 3}), (fork, {1})):
        page = await harness.read(log)
        assert [entry["seq"] for entry in page] == [1, 2, 3, 4] if log is bad else [1, 2, 3, 4, 5]
        codes = {entry["seq"] for entry in page if entry["content"].get("code") == "entry_damaged"}
        assert codes == lost
    damage(harness, "UPDATE log SET body = ? WHERE subject = ? AND seq = 4", bad.session_id)
    damage(harness, "UPDATE log SET body = ? WHERE subject = ? AND type = 'session-updated'", bad.session_id)
    for event in await harness.read_feed():
        json.loads(event.data)
    assert len(set_aside(harness)) >= 5
    await harness.store.close()


async def test_a_message_that_cannot_be_read_fails_and_the_others_are_delivered(tmp_path: Path) -> None:
    harness, bad, _ = await opened(tmp_path)
    items = [new_item("short"), new_item("long " * 200), new_item("long " * 200), new_item("fine")]
    for item in items:
        await harness.store.accept_item(NAMESPACE, bad.session_id, item)
    damage(harness, "UPDATE items SET body = ? WHERE id IN (?, ?)", items[0].id, items[1].id)
    damage(
        harness, "UPDATE item_bodies SET body = ? WHERE n = (SELECT n FROM items WHERE id = ?)", items[2].id
    )
    claimed = await harness.store.claim_items(bad.session_id, LINK)
    # The second was restored from its whole text.
    assert [(item.id, item.text) for item in claimed] == [(one.id, one.text) for one in (items[1], items[3])]
    row = await harness.store.get_session(NAMESPACE, bad.session_id)
    assert [item.id for item in row.queue] == [items[1].id, items[3].id]
    assert isinstance(harness.factory, SqliteFactory)
    with closing(sqlite3.connect(harness.factory.path)) as db:
        failed = db.execute("SELECT id FROM items WHERE state = ?", (ItemState.FAILED.value,)).fetchall()
    assert {id for (id,) in failed} == {items[0].id, items[2].id}
    await harness.store.close()


async def test_a_machine_that_cannot_be_read_can_connect(tmp_path: Path) -> None:
    harness, _, _ = await opened(tmp_path)
    damage(harness, "UPDATE machines SET info = ? WHERE id = ?", harness.machine.id)
    [view] = await harness.store.list_machines(NAMESPACE)
    assert (view.id, view.host) == (harness.machine.id, "unknown")
    await harness.reopen()
    await harness.connect()
    [view] = await harness.store.list_machines(NAMESPACE)
    assert view.host == harness.machine.host
    await harness.store.close()
