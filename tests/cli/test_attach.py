"""`farsteer attach` on a terminal and without one."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import termios
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.command import finish, start
from tests.support.stack import Account, Stack

pytestmark = pytest.mark.slow

SECONDS = 30.0


class Terminal:
    """The other end of a pseudo-terminal: reads what is shown and types keys."""

    def __init__(self, descriptor: int, process: Process) -> None:
        self.process = process
        self.shown = ""
        self._descriptor = descriptor
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:
            data = b""
        if not data:
            self.close()
        self.shown += data.decode(errors="replace")
        self._more.set()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)

    def type(self, text: str) -> None:
        self.shown = ""
        os.write(self._descriptor, text.encode())

    async def shows(self, *texts: str) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                while not all(text in self.shown for text in texts):
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"waited for {texts} in {self.shown!r}") from None


@asynccontextmanager
async def attached(*argv: str) -> AsyncIterator[Terminal]:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    try:
        process = await start("attach", *argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        terminal = Terminal(ours, process)
        try:
            await terminal.shows("Ctrl-D detaches")
            yield terminal
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(SECONDS):
                await process.wait()
            terminal.close()
        assert termios.tcgetattr(theirs) == before, "the terminal is as it was"
    finally:
        os.close(ours)
        os.close(theirs)


async def test_sending_messages_and_approving(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.turn(session, "say before you came")
    async with attached(session[:8]) as terminal:
        await terminal.shows("before you came", "idle")
        terminal.type("say hello terminal\r")
        await terminal.shows("hello terminal")
        terminal.type("write note.txt hi\r")
        await terminal.shows("[y]es", "waiting for you")
        terminal.type("perhaps\r")
        await terminal.shows("not understood")
        terminal.type("y\r")
        await terminal.shows("approved by", "idle")
        assert (Path(hub.directory()) / "note.txt").exists()
        terminal.type("\x04")
        assert await terminal.process.wait() == 0
        await terminal.shows("detached")
    await account.until(session, "idle")


async def test_questions_and_plans(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    async with attached(session) as terminal:
        terminal.type("ask\r")
        await terminal.shows("1) red", "a number")
        terminal.type("2\r")
        await terminal.shows("answered by")
        terminal.type("plan\r")
        await terminal.shows("Look around", "what to change")
        terminal.type("n smaller steps\r")
        await terminal.shows("denied by", "smaller steps")


async def test_ctrl_c_interrupts_and_a_second_one_detaches(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    async with attached(session) as terminal:
        terminal.type("slow 2000\r")
        await terminal.shows("word5", "working")
        terminal.type("\x03")
        await terminal.shows("interrupting", "turn ended: cancelled")
        terminal.type("\x03")
        await terminal.shows("detached")
        assert await terminal.process.wait() == 0
    await account.until(session, "idle")


async def test_a_yes_does_not_answer_what_appeared_while_it_was_typed(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    async with attached(session) as terminal:
        await account.say(session, "several 2")
        await terminal.shows("several-1.txt", "several-2.txt", "[y]es")
        terminal.type("y")
        await terminal.shows("> ")
        [first, second] = (await account.session(session))["approvals"]
        await account.post_json(f"/api/sessions/{session}/permissions/{first['id']}/deny")
        await terminal.shows("denied by")
        terminal.type("\r")
        await terminal.shows("was not sent")
        assert [left["id"] for left in (await account.session(session))["approvals"]] == [second["id"]]
        terminal.type("n\r")
        await terminal.shows("idle")
    assert not [*Path(hub.directory()).glob("several-*")]


async def test_messages_of_others_are_shown(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    async with attached() as terminal:
        await account.say(session, "think hard")
        await terminal.shows("> think hard", "∴ hard")
        await account.delete(f"/api/sessions/{session}")
        await terminal.shows("the session was deleted")
        assert await terminal.process.wait() == 0


async def test_without_a_terminal_it_prints_a_plain_log(hub: Stack) -> None:
    account: Account = await hub.sign_in()
    session = await hub.create(account, title="logged")
    await account.turn(session, "say one")
    process = await start("attach", session[:8], "--tail", "3")
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        head = (await process.stdout.readline()).decode()
        assert head.startswith(f"session {session[:8]} 'logged': demo in ")
        await account.say(session, "say \x1b[31mtwo")
        text = ""
        while "[31mtwo" not in text:
            text += (await process.stdout.readline()).decode()
        assert "\x1b" not in text
    await account.delete(f"/api/sessions/{session}")
    result = await finish(process)
    assert result.code == 0
    assert "deleted" in result.err
