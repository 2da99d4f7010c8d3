"""`farsteer watch` with a hub."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.command import SECONDS, start
from tests.cli.conftest import RunCommand
from tests.support.stack import Stack

pytestmark = pytest.mark.slow


@asynccontextmanager
async def watching(*argv: str) -> AsyncIterator[Process]:
    process = await start("watch", *argv)
    assert process.stderr is not None
    async with asyncio.timeout(SECONDS):
        assert b"watching" in await process.stderr.readline()
        yield process
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130


async def lines_until(process: Process, last: Callable[[str], bool]) -> list[str]:
    """Return the lines that are printed, up to the one that `last` waits for."""
    assert process.stdout is not None
    lines: list[str] = []
    while not (lines and last(lines[-1])):
        line = (await process.stdout.readline()).decode()
        assert line, lines
        lines.append(line.rstrip("\n"))
    return lines


async def test_everything_is_one_line(hub: Stack) -> None:
    account = await hub.sign_in()
    async with watching() as process:
        session = await hub.create(account, title="a title")
        await account.say(session, "say one\x1b[2J\nwrite a.txt hello")
        lines = await lines_until(process, lambda line: "approval_requested" in line)
    added = next(line for line in lines if "session-added" in line)
    assert session[:8] in added
    assert "a title" in added
    assert any("agent_message" in line and line.endswith("one[2J") for line in lines)
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if len(line.split()) < 4] == [], "each says what has happened"
    assert not any("updatedAt" in line for line in lines)
    assert not any("message-delta" in line for line in lines)


async def test_filters_by_session_and_kind(hub: Stack) -> None:
    account = await hub.sign_in()
    first, second = await hub.create(account), await hub.create(account)
    kinds = ["--type", "agent_message", "--type", "turn_end"]
    async with watching("--session", second[:8], *kinds) as process:
        await account.turn(first, "say not this")
        await account.turn(second, "say this")
        lines = await lines_until(process, lambda line: "turn_end" in line)
    assert [line.split()[1:3] for line in lines] == [[second[:8], "agent_message"], [second[:8], "turn_end"]]


async def test_filters_by_machine_and_prints_json(hub: Stack) -> None:
    account = await hub.sign_in()
    (machine,) = (await account.get_json("/api/machines"))["machines"]
    old = await hub.create(account)
    async with watching("--machine", machine["id"][:8], "--json", "--type", "turn_end") as process:
        new = await hub.create(account)
        await account.turn(old, "say one")
        await account.turn(new, "say two")
        lines = await lines_until(process, lambda line: json.loads(line)["sessionId"] == new)
    events = [json.loads(line) for line in lines]
    assert [event["sessionId"] for event in events] == [old, new]
    assert {event["message"]["content"]["kind"] for event in events} == {"turn_end"}


async def test_an_unknown_type_lists_the_types(home: Path, run_command: RunCommand) -> None:
    result = await run_command("watch", "--type", "explosion")
    assert result.code == 2
    assert "'session-added'" in result.err
    assert "'turn_end'" in result.err
