"""`farsteer backup` of a hub and a runner that are in use, and what its restore gives back."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from farsteer.client import AsyncClient, Gap
from farsteer.client.config import hub_file
from farsteer.core.events import AgentMessage, UserMessage
from tests.cli.command import farsteer, finish, start
from tests.cli.test_daemons import ready
from tests.support.eventually import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


@asynccontextmanager
async def up(home: Path, project: Path) -> AsyncIterator[AsyncClient]:
    """`farsteer up` as a process, and a client of it."""
    process = await start("up", "--port", "0", "--home", str(home), cwd=project)
    try:
        assert "ready" in await ready(process)
        url = json.loads(hub_file(home).read_bytes())["url"]
        async with AsyncClient(url, (home / "token").read_text().strip()) as client:
            yield client
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        assert (await finish(process)).code == 0


async def texts(client: AsyncClient, session: str, kind: type[UserMessage] | type[AgentMessage]) -> list[str]:
    entries = [entry async for entry in client.messages(session)]
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    return [entry.content.text for entry in entries if isinstance(entry.content, kind)]


async def cursor_of(client: AsyncClient) -> str:
    async with client.events() as stream:
        assert stream.cursor is not None
        return stream.cursor


async def test_a_backup_under_load_is_restored_into_an_empty_home(home: Path) -> None:
    project = home.parent / "project"
    project.mkdir()
    archive, new = home.parent / "backup.tar", home.parent / "restored"
    answered = 0
    async with up(home, project) as client:
        session = await client.start(str(project), agent="demo")

        async def talk() -> None:
            nonlocal answered
            while True:
                assert (await session.ask(f"say {answered}")).text == str(answered)
                answered += 1

        talking = asyncio.create_task(talk())
        try:
            await eventually(lambda: talking.done() or answered >= 3)
            before, cursor = answered, await cursor_of(client)
            made = await farsteer("backup", str(archive), "--home", str(home))
            assert made.code == 0, made.err
            assert stat.S_IMODE(archive.stat().st_mode) == 0o600
            after, late_cursor = answered, await cursor_of(client)
            assert after > before, "the hub went on meanwhile"
        finally:
            talking.cancel()
            with suppress(asyncio.CancelledError):
                await talking
        in_use = await farsteer("restore", str(archive), "--home", str(home), "--force")
        assert in_use.code == 1
        assert "in use" in in_use.err
    for name in ("hub.db", "runner.db", "token", "jwt.key", "machine.key", "agents/"):
        assert name in made.out
    assert "not in it" in made.out

    done = await farsteer("restore", str(archive), "--home", str(new))
    assert done.code == 0, done.err
    assert "another machine" in " ".join(done.out.split())
    async with up(new, project) as client:
        asked = [f"say {n}" for n in range(before)]
        assert (await texts(client, session.id, UserMessage))[:before] == asked
        assert set(await texts(client, session.id, AgentMessage)) >= {str(n) for n in range(before)}
        for old in (cursor, late_cursor):
            assert isinstance(await anext(client.events(since=old)), Gap)
        assert "say 0" in (await client.attach(session.id).ask("history")).text, "the agent remembers"
        now = await cursor_of(client)
    async with up(new, project) as client, client.events(since=now) as stream:
        assert (await client.attach(session.id).ask("say again")).text == "again"
        assert not isinstance(await anext(stream), Gap), "a restart begins no epoch"
