"""A home directory that is damaged, removed or too small: it is said what happened, and nothing else is harmed."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import sqlite3
import subprocess
from asyncio.subprocess import Process
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from farsteer import AsyncClient
from farsteer.client.config import hub_file
from farsteer.core.errors import FarsteerError
from tests.cli.command import Result, farsteer, finish, start
from tests.support.eventually import eventually
from tests.support.stack import OWNER

pytestmark = pytest.mark.faults


async def ready(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode()


async def stop(process: Process) -> Result:
    process.send_signal(signal.SIGTERM)
    return await finish(process)


def url_of(home: Path) -> str:
    return json.loads(hub_file(home).read_bytes())["url"]


# -- removed


async def test_a_home_removed_under_a_running_hub_and_runner_ends_both(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLI_API_TOKEN", OWNER)
    far = home.parent / "far"
    hub = await start("hub", "--port", "0")
    await ready(hub)
    url = url_of(home)
    runner = await start("runner", "--home", str(far), "--hub", url)
    await ready(runner)
    async with AsyncClient(url, OWNER) as client:
        session = await client.start(str(project), agent="demo")
        assert str(await session.ask("say hello")) == "hello"
        shutil.rmtree(far)
        await session.send("say nothing")
        ended = await finish(runner)
        assert ended.code == 1
        assert f"{far / 'runner.db'} was removed or replaced" in ended.err
        assert "Traceback" not in ended.err
        assert not far.exists(), "no half home"
        # The hub is not harmed, and shows the machine as offline.
        assert [machine.active for machine in await client.machines()] == [False]
        shutil.rmtree(home)
        with pytest.raises(FarsteerError, match=r"hub\.db was removed or replaced"):
            await session.send("say nothing")
    ended = await finish(hub)
    assert ended.code == 1
    assert f"{home / 'hub.db'} was removed or replaced" in ended.err
    assert not home.exists()


async def test_a_home_replaced_under_up_is_not_written_to(home: Path, project: Path) -> None:
    process = await start("up", "--port", "0", cwd=project)
    await ready(process)
    moved = home.with_name("moved")
    home.rename(moved)
    shutil.copytree(moved, home)
    before = (home / "hub.db").read_bytes()
    (home / "hub.json").unlink()
    async with AsyncClient(url_of(moved), (moved / "token").read_text().strip()) as client:
        with pytest.raises(FarsteerError):
            await client.start(str(project), agent="demo")
    ended = await finish(process)
    assert ended.code == 1
    assert "was removed or replaced" in ended.err
    assert (home / "hub.db").read_bytes() == before


# -- damaged databases


@pytest.mark.parametrize("name", ["hub.db", "runner.db"])
@pytest.mark.parametrize("damage", ["garbage", "torn"])
async def test_a_damaged_database_says_restore_it_or_move_it_aside(
    home: Path, project: Path, name: str, damage: str
) -> None:
    assert (await farsteer("exec", "say hello", cwd=project)).out == "hello\n"
    path = home / name
    content = path.read_bytes()
    if damage == "garbage":
        path.write_bytes(b"this is no database " * 1000)
    else:
        path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    for command in (["up", "--port", "0"], ["exec", "say hello"]):
        refused = await farsteer(*command, cwd=project)
        assert refused.code == 1, refused
        assert f"{path} is damaged" in refused.err
        assert "farsteer restore" in refused.err
        assert "start a hub" not in refused.err
        assert "Traceback" not in refused.err
    seen = await farsteer("doctor")
    assert seen.code == 1
    assert f"FAIL  {path} is damaged" in seen.out
    assert "farsteer restore" in seen.out
    assert "starts one" not in seen.out
    path.rename(path.with_name("aside"))
    for left in (f"{name}-wal", f"{name}-shm"):
        (home / left).unlink(missing_ok=True)
    assert (await farsteer("exec", "say hello", cwd=project)).out == "hello\n"


# -- identity


async def test_an_emptied_machine_id_is_taken_from_the_journal(home: Path, project: Path) -> None:
    assert (await farsteer("exec", "say hello", cwd=project)).out == "hello\n"
    file = home / "machine-id"
    known = file.read_text()
    file.write_text("")
    assert "machine-id is missing or damaged" in (await farsteer("doctor")).out
    process = await start("up", "--port", "0", cwd=project)
    await ready(process)
    machines = (await farsteer("doctor")).out
    ended = await stop(process)
    assert file.read_text() == known
    assert "1 of 1 machines connected" in machines
    assert f"the id of this machine is {known.strip()}" in ended.err
    with closing(sqlite3.connect(home / "runner.db")) as db, db:
        db.execute("DELETE FROM sessions")
    file.write_text(known[:8])
    refused = await farsteer("up", "--port", "0")
    assert refused.code == 2
    assert "--new-identity" in refused.err
    assert file.read_text() == known[:8]


# -- retention


async def test_compact_works_with_the_hub_running_and_stopped(home: Path, project: Path) -> None:
    (home / "hub.toml").write_text("[retention.default]\ndays = 30\n")
    for _ in range(3):
        assert (await farsteer("exec", "flood 1200", cwd=project)).code == 0
    age_sessions(home, "(SELECT id FROM sessions LIMIT 1)")
    before = (home / "hub.db").stat().st_size
    dry = await farsteer("hub", "compact", "--dry-run")
    assert (dry.code, dry.out.count("would be removed by age")) == (0, 1), dry
    assert len((await farsteer("sessions")).lines) <= 4
    done = await farsteer("hub", "compact")
    assert (done.code, done.out.count("removed by age")) == (0, 1), done
    assert (home / "hub.db").stat().st_size < before * 0.8

    age_sessions(home, "(SELECT id FROM sessions WHERE phase = 'live' LIMIT 1)")
    (home / "hub.toml").write_text("")
    process = await start("up", "--port", "0", cwd=project)
    await ready(process)
    kept = await farsteer("hub", "compact")
    assert (kept.code, kept.lines[0]) == (0, "no session is removed by the retention rules")
    assert kept.lines[-1].startswith("before ")
    await stop(process)

    (home / "hub.toml").write_text("[retention.default]\ndays = 30\n")
    process = await start("up", "--port", "0", cwd=project)
    await ready(process)
    # At its start the hub has removed it by itself, and its runner has forgotten it.
    await eventually(lambda: count(home, "hub.db", "SELECT count(*) FROM sessions WHERE phase = 'live'") == 1)
    await eventually(lambda: count(home, "runner.db", "SELECT count(*) FROM sessions") == 1)
    await stop(process)


def age_sessions(home: Path, which: str) -> None:
    with closing(sqlite3.connect(home / "hub.db")) as db, db:
        db.execute(f"UPDATE sessions SET updated_at = updated_at - 40 * 86400000 WHERE id IN {which}")


def count(home: Path, name: str, query: str) -> int:
    with closing(sqlite3.connect(home / name)) as db:
        return db.execute(query).fetchone()[0]


# -- rows that cannot be decoded


async def test_an_undecodable_row_is_set_aside_and_the_rest_is_served(home: Path, project: Path) -> None:
    for text in ("say one", "say two"):
        assert (await farsteer("exec", text, cwd=project)).code == 0
    with closing(sqlite3.connect(home / "runner.db")) as db, db:
        [(bad,), (good,)] = db.execute("SELECT id FROM sessions ORDER BY id").fetchall()
        db.execute("UPDATE sessions SET state = x'00ff' WHERE id = ?", (bad,))
    with closing(sqlite3.connect(home / "hub.db")) as db, db:
        db.execute("UPDATE sessions SET state = x'00ff' WHERE id = ?", (bad,))
        db.execute("UPDATE log SET body = x'00ff' WHERE subject = ? AND seq = 3", (bad,))
    process = await start("up", "--port", "0", cwd=project)
    await ready(process)
    async with AsyncClient(url_of(home), (home / "token").read_text().strip()) as client:
        assert {session.id async for session in client.sessions()} == {bad, good}
        assert [entry.seq async for entry in client.messages(bad)][:5] == [1, 2, 3, 4, 5]
        assert str(await client.attach(good).ask("say still here")) == "still here"
    seen = await farsteer("doctor")
    ended = await stop(process)
    for name in ("hub.db", "runner.db"):
        assert re.search(
            rf"warn  {name}: \d+ records could not be read and were set aside \(.*{bad}", seen.out
        )
    for name in ("hub", "runner"):
        assert f"{home / name}.db: a row of sessions cannot be decoded (session {bad}" in ended.err
        assert (home / f"{name}.damaged.jsonl").exists()


# -- too small


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "tmpfs", path], check=False)
    if mounted.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


async def test_a_runner_on_a_full_disk_says_so_waits_and_goes_on(
    home: Path, project: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLI_API_TOKEN", OWNER)
    hub = await start("hub", "--port", "0")
    await ready(hub)
    url = url_of(home)
    runner = await start("runner", "--home", str(small_disk / "far"), "--hub", url)
    await ready(runner)
    async with AsyncClient(url, OWNER) as client:
        session = await client.start(str(project), agent="demo")
        assert str(await session.ask("say hello")) == "hello"
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 512):
                pass
        # What fits into the files that are there is still written.
        for _ in range(40):
            await session.send("say " + "y" * 20_000)

        async def problem() -> str | None:
            [machine] = await client.machines()
            assert machine.active
            return machine.problem

        async def has_problem() -> bool:
            return "is full: free some space" in (await problem() or "")

        await eventually(has_problem, 30)
        assert "is full" in (await farsteer("doctor")).out
        filler.unlink()

        async def works() -> bool:
            return await problem() is None and not await client.queue(session.id)

        await eventually(works, 60)
        assert str(await session.ask("say hello")) == "hello"
    ended = await stop(runner)
    assert f"session {session.id} waits: the disk of {small_disk / 'far' / 'runner.db'} is full" in ended.err
    assert "Traceback" not in ended.err
    await stop(hub)
