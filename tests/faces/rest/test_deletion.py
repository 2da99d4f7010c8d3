"""Deleting a session removes its rows and files on the hub and on its machine, and nothing restores it."""

import sqlite3
from base64 import b64encode
from contextlib import closing
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.stack import Account, Stack


def rows_with(path: Path, id: str) -> dict[str, int]:
    """Return the number of rows that mention `id`, by table."""
    found: dict[str, int] = {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            where = " OR ".join(f"instr(CAST({column} AS TEXT), ?)" for column in columns)
            (count,) = db.execute(
                f"SELECT count(*) FROM {table} WHERE {where}", [id] * len(columns)
            ).fetchone()
            if count:
                found[table] = count
    return found


def left_of(home: Path, id: str) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """Return what mentions a session: rows of the hub, rows of the runner, files of its agent."""
    files = sorted(path.name for path in (home / "agents").rglob("*") if id in path.name)
    return rows_with(home / "hub.db", id), rows_with(home / "runner.db", id), files


GONE = ({"sessions": 1, "log": 1}, {}, [])
"""The tombstone that stops late writers, and the event of the deletion."""


async def session(stack: Stack, owner: Account) -> str:
    """Create a session with rows in every table that can hold some."""
    id = await stack.create(owner)
    file = {"name": "a.txt", "data": b64encode(b"a secret").decode()}
    await owner.say(id, "hello", attachments=[file])
    await owner.until(id, "idle")
    log = await owner.turn(id, "hello again")
    second = max(entry["seq"] for entry in log if entry["content"]["kind"] == "user_message")
    await owner.post_json(f"/api/sessions/{id}/rewind", {"seq": second})
    await owner.turn(id, "something else")
    hub, runner, files = left_of(stack.home, id)
    assert {"sessions", "log", "items", "usage", "cuts"} <= hub.keys()
    assert "sessions" in runner
    assert files
    return id


async def test_a_deleted_session_leaves_nothing(stack: Stack, owner: Account) -> None:
    id = await session(stack, owner)
    await owner.delete(f"/api/sessions/{id}")
    await owner.get_json(f"/api/sessions/{id}", 404)
    await eventually(lambda: left_of(stack.home, id) == GONE)


async def test_the_conversation_before_a_rewind_is_deleted_too(stack: Stack, owner: Account) -> None:
    id = await stack.create(owner)
    log = await owner.turn(id, "hello")
    (first,) = [entry["seq"] for entry in log if entry["content"]["kind"] == "user_message"]
    await owner.post_json(f"/api/sessions/{id}/rewind", {"seq": first})
    await owner.turn(id, "hello again")
    native = (await owner.session(id))["nativeId"]
    assert native != id
    assert left_of(stack.home, id)[2]
    assert left_of(stack.home, native)[2]
    await owner.delete(f"/api/sessions/{id}")
    await eventually(lambda: left_of(stack.home, id) == GONE)
    assert left_of(stack.home, native) == ({}, {}, [])


async def test_a_disconnected_machine_deletes_when_it_reconnects(stack: Stack, owner: Account) -> None:
    id = await session(stack, owner)
    await stack.stop_runner()
    await owner.delete(f"/api/sessions/{id}")
    assert left_of(stack.home, id)[2], "its files remain while the machine is offline"
    await stack.start_runner()
    await eventually(lambda: left_of(stack.home, id) == GONE)


async def test_a_busy_agent_does_not_restore_the_session(stack: Stack, owner: Account) -> None:
    id = await session(stack, owner)
    await owner.say(id, "work 1000 0.05")
    await owner.until(id, "working")
    await owner.say(id, "and then this")
    await owner.delete(f"/api/sessions/{id}")
    await eventually(lambda: left_of(stack.home, id) == GONE)
    await owner.get_json(f"/api/sessions/{id}", 404)
    await stack.stop_runner()
    await stack.start_runner()
    assert left_of(stack.home, id) == GONE
    assert (await owner.get_json("/api/sessions"))["sessions"] == []


async def test_a_fork_is_deleted_and_its_source_stays(stack: Stack, owner: Account) -> None:
    source = await session(stack, owner)
    fork = (await owner.post_json(f"/api/sessions/{source}/fork", {}))["sessionId"]
    assert "copies" in left_of(stack.home, fork)[0]
    before = left_of(stack.home, source)
    await owner.delete(f"/api/sessions/{fork}")
    await eventually(lambda: left_of(stack.home, fork) == GONE)
    assert left_of(stack.home, source)[2] == before[2]
    log = await owner.turn(source, "what did I say?")
    assert any("something else" in str(entry["content"].get("text")) for entry in log[-5:])
