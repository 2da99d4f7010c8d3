"""Scenarios 74 to 85 of the catalogue: what is on the disk, and what is there after a crash."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from farsteer import AsyncClient
from farsteer.client.config import HubFile, find_token, hub_file
from farsteer.core.api import SendMessage
from farsteer.core.errors import Conflict, FarsteerError
from farsteer.core.events import TurnEnd, UserMessage
from farsteer.core.wire import encode
from farsteer.hub import Hub
from farsteer.hub.auth.secrets import load_owner_token
from farsteer.runner.machine import load_settings
from farsteer.runner.runner import Runner
from farsteer.storage.home import HomeLock
from tests.hub.scripted import caller
from tests.promises.station import Station, machine_is
from tests.scenarios import log as read
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stack import OWNER, farsteer

pytestmark = pytest.mark.slow


def disk_of(home: Path, to: Path) -> Path:
    """The databases as a power failure at this moment would leave them."""
    to.mkdir(parents=True)
    for file in home.glob("*.db*"):
        shutil.copy(file, to)
    return to


def rows(home: Path, database: str, query: str, *values: Any) -> list[Any]:
    """Asked of the database of a living process, from beside it."""
    db = sqlite3.connect(f"file:{home / database}?mode=ro", uri=True)
    try:
        return db.execute(query, values).fetchall()
    finally:
        db.close()


def conversation(home: Path, native_id: str) -> Path:
    """The demo agent's own file."""
    return home / "agents" / "demo" / f"{native_id}.jsonl"


def files(home: Path) -> set[Path]:
    return {path for path in home.rglob("*") if path.is_file()}


async def logged(client: AsyncClient, session_id: str, kind: type) -> list[Any]:
    return [e.content async for e in client.messages(session_id) if isinstance(e.content, kind)]


async def test_74_torn_last_line(home: Path, tmp_path: Path) -> None:
    """Of the hub's database and of the agent's own conversation alike."""
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        session = await stack.create(me)
        await me.turn(session, "remember the dolphin")
        await me.post_json(f"/api/sessions/{session}/stop")
        before = disk_of(home, tmp_path / "before")
        await me.patch(f"/api/sessions/{session}", json={"title": "new"})
        after = disk_of(home, tmp_path / "after")
        short, long = ((disk / "hub.db-wal").stat().st_size for disk in (before, after))
        assert short < long
        for cut in range(short, long, (long - short) // 5):
            torn = disk_of(after, tmp_path / f"torn-{cut}")
            with (torn / "hub.db-wal").open("r+b") as file:
                file.truncate(cut)
            await check_usable(torn, session)

        native_id = (await me.session(session))["nativeId"]
        file = conversation(home, native_id)
        with file.open("ab") as tail:
            tail.write(b'{"role":"agent","anchor":"torn","text":"half of a')
        log = await me.turn(session, "history")
        assert "dolphin" in read.answers(log)[-1]
        assert "half of a" not in file.read_text()
        log = await me.turn(session, "history")
        assert "history" in read.answers(log)[-1], "what was said after the tear is remembered too"


async def check_usable(home: Path, session: str) -> None:
    """Everything before the tear is there, and what is written next stays."""
    hub = await Hub.open(home, OWNER)
    try:
        view = await hub.sessions.get(caller(), session)
        assert view.title in ("remember the dolphin", "new")
        page = json.loads(await hub.messages.list(caller(), session, limit=200))
        assert read.whole(page["messages"])
        assert view.seq == len(page["messages"])
        sent = await hub.messages.send(caller(), session, SendMessage(text="hello"))
    finally:
        await hub.close()
    hub = await Hub.open(home, OWNER)
    try:
        assert [item.id for item in (await hub.messages.queue(caller(), session)).items] == [sent.id]
    finally:
        await hub.close()


async def test_75_two_writers_on_the_index(home: Path) -> None:
    """A second process is refused; within one, no row and no field is lost however many write at once."""
    async with farsteer(home) as stack:
        with pytest.raises(Conflict):
            await Hub.open(home, OWNER)
        with pytest.raises(Conflict):
            await Runner.open(home)
        me, you = await stack.sign_in(), await stack.sign_in()
        sessions = await asyncio.gather(*(stack.create(me, title=f"s{n}") for n in range(4)))

        async def change(number: int, session: str) -> None:
            await asyncio.gather(
                me.patch(f"/api/sessions/{session}", json={"title": f"title {number}"}),
                you.post_json(f"/api/sessions/{session}/permission-mode", {"mode": "acceptEdits"}),
                you.post_json(f"/api/sessions/{session}/model", {"model": "demo-1-mini"}),
                *(me.say(session, f"say {number}.{k}", localId=f"m{k}") for k in range(3)),
                *(you.say(session, f"say {number}.{k}", localId=f"y{k}") for k in range(3)),
            )

        await asyncio.gather(*(change(number, session) for number, session in enumerate(sessions)))
        await asyncio.gather(*(me.until(session, "idle") for session in sessions))
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        assert {one["id"] for one in (await me.get_json("/api/sessions"))["sessions"]} == set(sessions)
        for number, session in enumerate(sessions):
            view = await me.session(session)
            assert (view["title"], view["permissionMode"], view["model"]) == (
                f"title {number}", "acceptEdits", "demo-1-mini",
            )  # fmt: skip
            log = await me.messages(session, limit=200)
            assert read.whole(log)
            assert sorted(read.said(log)) == sorted(2 * [f"say {number}.{k}" for k in range(3)])


async def test_76_crash_while_writing_index(home: Path) -> None:
    """An index that cannot be read is neither taken for an empty one nor written over.

    That a crash leaves the old or the new state is held by tests/hub/test_crash.py.
    """
    database = home / "hub.db"
    damaged = b"no database" * 1000
    database.write_bytes(damaged)
    with pytest.raises(FarsteerError, match=re.escape(str(database))):
        await Hub.open(home, OWNER)
    assert database.read_bytes() == damaged


async def test_76_an_empty_index_deletes_nothing(home: Path) -> None:
    """On the word of a hub that knows nothing (its database is lost, or it is another hub), nothing is given up."""
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        session = await stack.create(me)
        await me.turn(session, "remember the dolphin")
        native_id = (await me.session(session))["nativeId"]
    file = conversation(home, native_id)
    whole = file.read_bytes()
    kept = (home / "hub.db").read_bytes()
    (home / "hub.db").write_bytes(b"")
    async with farsteer(home):
        pass
    assert file.read_bytes() == whole
    assert rows(home, "runner.db", "SELECT id FROM sessions") == [(session,)]
    (home / "hub.db").write_bytes(kept)
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        assert "dolphin" in read.answers(await me.turn(session, "history"))[-1]


async def test_76_an_older_index_goes_on(home: Path) -> None:
    """A hub that was set back to a backup: what it lost is told as lost, and nobody else has to suffer for it."""
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        one, other = await stack.create(me), await stack.create(me)
        await me.turn(one, "remember the dolphin")
    backup = (home / "hub.db").read_bytes()
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        await me.turn(one, "remember the whale")
        # The runner drops what the hub has confirmed.
        await eventually(lambda: not rows(home, "runner.db", "SELECT 1 FROM outbox"))
    (home / "hub.db").write_bytes(backup)
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        log = await me.turn(one, "history")
        assert read.whole(log)
        assert read.said(log) == ["remember the dolphin", "history"]
        assert {notice["code"] for notice in read.of(log, "notice")} == {"entry_lost"}
        assert "whale" in read.answers(log)[-1], "the agent was not set back"
        assert read.answers(await me.turn(other, "say hello")) == ["hello"]


def test_77_stale_lock(tmp_path: Path) -> None:
    with holding(tmp_path) as holder:
        with pytest.raises(Conflict, match=f"process {holder.pid}"):
            HomeLock(tmp_path, "runner")
        holder.kill()
        holder.wait(timeout=20)
    lock = HomeLock(tmp_path, "runner")
    # Whoever is refused takes nothing from the successor.
    for _ in range(2):
        with pytest.raises(Conflict, match=f"process {os.getpid()}"):
            HomeLock(tmp_path, "runner")
    lock.release()


@contextmanager
def holding(home: Path) -> Generator[subprocess.Popen[bytes]]:
    script = (
        "import sys; from pathlib import Path; from farsteer.storage.home import HomeLock\n"
        "lock = HomeLock(Path(sys.argv[1]), 'runner'); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=home) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


async def test_78_stats_after_restart(home: Path) -> None:
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        session = await stack.create(me)
        await me.turn(session, "say one two three")
        first = (await me.session(session))["usage"]
    assert first["inputTokens"] > 0
    assert first["outputTokens"] > 0
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        assert (await me.session(session))["usage"] == first
        await me.turn(session, "say four")
        second = (await me.session(session))["usage"]
        await stack.stop_runner()
        await stack.start_runner()
        assert (await me.session(session))["usage"] == second
        log = await me.messages(session, limit=200)
    counted = read.of(log, "usage_update")
    assert len(counted) == 2
    assert len({event["turnId"] for event in counted}) == 2
    for name in ("inputTokens", "outputTokens"):
        assert second[name] == sum(event[name] for event in counted) > first[name]


@pytest.mark.slow
async def test_79_user_message_survives_crash_right_after_send(tmp_path: Path) -> None:
    station = Station(tmp_path, free_port())
    await station.start_hub()
    try:
        await station.start_runner()
        client = station.client()
        session = (await client.start(station.desk, agent="demo")).id
        sent = await client.send(session, "say I was there", local_id="mine")
        await asyncio.gather(station.kill(station.hub), station.kill(station.runner))
        await station.start_hub()
        client = station.client()
        known = [item.id for item in await client.queue(session)]
        known += [message.item_id for message in await logged(client, session, UserMessage)]
        assert sent.id in known, "on the disk before anybody was answered"
        await station.start_runner()
        await machine_is(client, active=True)

        async def settled() -> bool:
            return not await client.queue(session) and bool(await logged(client, session, TurnEnd))

        await eventually(settled)
        messages = await logged(client, session, UserMessage)
        assert [(message.item_id, message.text) for message in messages] == [(sent.id, "say I was there")]
        assert (await client.send(session, "say I was there", local_id="mine")).id == sent.id
    finally:
        await station.close()


async def test_80_unsaved_partial_answer_survives_new_chat_and_switch(home: Path) -> None:
    async with farsteer(home) as stack, AsyncClient(stack.url, OWNER) as client:
        me = await stack.sign_in()
        old = await client.start(stack.directory(), agent="demo")
        async with old.turn("slow 1000") as turn:
            async for update in turn:
                if update.text:
                    break
        new = await client.start(stack.directory(), agent="demo")
        assert str(await new.ask("say hello")) == "hello"
        await old.stop()
        log = await me.messages(old.id, limit=200)
        [partial] = read.of(log, "agent_message")
        assert partial["text"].startswith("word1 ")
        assert partial["partial"] is True
        log = await me.turn(new.id, "crash mid")
        assert [(m["text"], m.get("partial", False)) for m in read.of(log, "agent_message")] == [
            ("hello", False), ("This message will never be ", True),
        ]  # fmt: skip


async def test_82_path_traversal_id(home: Path) -> None:
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        [machine] = (await me.get_json("/api/machines"))["machines"]
        victim = home / "agents" / "victim.jsonl"
        victim.parent.mkdir(exist_ok=True)
        victim.write_text('{"role":"user","anchor":"a","text":"secret"}\n')
        before = files(home)
        for id in (
            "../victim",
            "..%2Fvictim",
            "%2e%2e/victim",
            "..\\victim",
            "../victim.jsonl",
            "/etc/passwd",
            "..",
        ):
            for method, path in (
                ("GET", f"/api/sessions/{id}/messages"),
                ("DELETE", f"/api/sessions/{id}"),
                ("POST", f"/api/sessions/{id}/messages"),
            ):
                # Built by hand: the client would resolve the dots.
                url = httpx.URL(stack.url).copy_with(raw_path=path.encode())
                answer = await me.request(method, url, json={"text": "x"} if method == "POST" else None)
                assert answer.status_code in (400, 404, 405), (path, answer.text)
                assert "secret" not in answer.text
            body = {"agent": "demo", "nativeId": id}
            answer = await me.post(f"/api/machines/{machine['id']}/import", json=body)
            assert answer.status_code in (400, 404, 422), answer.text
            assert "secret" not in answer.text
        assert files(home) == before


def test_83_bom_index_loads(home: Path) -> None:
    """Our index is a database; what a person's editor may put a byte order mark into is settings and token."""
    (home / "runner.toml").write_bytes(b"\xef\xbb\xbfname = 'box'\r\n")
    assert load_settings(home).name == "box"
    (home / "token").write_bytes(b"\xef\xbb\xbf" + OWNER.encode() + b"\r\n")
    hub_file(home).write_bytes(encode(HubFile(url="http://127.0.0.1:1", pid=os.getpid())))
    assert load_owner_token(home) == find_token("http://127.0.0.1:1") == OWNER


async def test_84_delete_the_current_session_while_its_owner_holds_it_in_memory(home: Path) -> None:
    async with farsteer(home) as stack, AsyncClient(stack.url, OWNER) as client:
        me = await stack.sign_in()
        session = await client.start(stack.directory(), agent="demo")
        await session.ask("remember the dolphin")
        native_id = (await me.session(session.id))["nativeId"]
        assert conversation(home, native_id).exists()
        async with session.turn("slow 1000") as turn:
            async for update in turn:
                if update.text:
                    break
        # The runner has a turn, a process and a partial answer at this moment.
        await session.delete()

        def forgotten() -> bool:
            return not rows(home, "runner.db", "SELECT id FROM sessions")

        await eventually(forgotten)
        await eventually(
            lambda: not rows(home, "hub.db", "SELECT 1 FROM log WHERE subject = ? AND seq > 0", session.id)
        )
        assert not psutil.Process().children(recursive=True)
        assert (await me.post(f"/api/sessions/{session.id}/messages", json={"text": "x"})).status_code == 404
        assert (await me.post(f"/api/sessions/{session.id}/resume")).status_code == 404
        await stack.stop_runner()
        await stack.start_runner()
        assert (await me.get_json("/api/sessions"))["sessions"] == []
        assert rows(home, "hub.db", "SELECT 1 FROM log WHERE subject = ? AND seq > 0", session.id) == []
        assert rows(home, "runner.db", "SELECT 1 FROM sessions UNION ALL SELECT 1 FROM outbox") == []
        assert not conversation(home, native_id).exists()


async def test_85_maintenance_does_not_change_recency_preview_and_title(home: Path) -> None:
    """Recency is when something was said or done in a session, by a person or its agent.

    A process that ends, starts or is renewed, a setting, a cleared view: none of that moves a session in the list.
    """
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        old, new = await stack.create(me), await stack.create(me)
        await me.turn(old, "say the older one")
        await me.turn(new, "say the newer one")

        async def listed() -> list[str]:
            return [session["id"] for session in (await me.get_json("/api/sessions"))["sessions"]]

        before = await me.session(old)
        assert await listed() == [new, old]
        await me.post_json(f"/api/sessions/{old}/permission-mode", {"mode": "acceptEdits"})
        await me.post_json(f"/api/sessions/{old}/model", {"model": "demo-1-mini"})
        await me.request("DELETE", f"/api/sessions/{old}/messages", json={"keepCount": 2})
        await me.post_json(f"/api/sessions/{old}/stop")
        await me.post_json(f"/api/sessions/{old}/resume")
        after = await me.session(old)
        assert (after["title"], after["lastMessage"]) == (before["title"], before["lastMessage"])
        assert await listed() == [new, old]
        await me.patch(f"/api/sessions/{old}", json={"title": "a better title"})
        assert await listed() == [new, old]
        # Only the older one has a process that ends with its runner.
        await me.post_json(f"/api/sessions/{new}/stop")
        await stack.stop_runner()
        await stack.start_runner()
        assert await listed() == [new, old]
        await me.turn(old, "say something")
        assert await listed() == [old, new]
