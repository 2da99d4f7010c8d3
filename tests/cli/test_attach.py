"""`farsteer attach` and `farsteer` alone, in a real terminal, line by line, and without a terminal."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import finish, start
from tests.support.daemons import TOKEN, Daemons
from tests.support.pty_screen import DOWN, END, ENTER, ESCAPE, INTERRUPT, PtyProgram
from tests.support.stack import Account, Stack

pytestmark = pytest.mark.slow

FARSTEER = (sys.executable, "-m", "farsteer")
PAGE_UP, SHIFT_TAB = b"\x1b[5~", b"\x1b[Z"
QUEUE, REWIND, MODEL, UNFOLD = b"\x11", b"\x12", b"\x14", b"\x0f"
COLOURS = re.compile(rb"\x1b\[(?:[\d;]*;)?(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|38;|48;)[\d;]*m")


@asynccontextmanager
async def attached(*argv: str, cwd: Path | str = "/", **options: Any) -> AsyncIterator[PtyProgram]:
    environment = {**os.environ, **options.pop("environment", {})}
    async with PtyProgram([*FARSTEER, *argv], cwd=cwd, environment=environment, **options) as terminal:
        yield terminal


async def leave(terminal: PtyProgram) -> None:
    terminal.press(END)
    assert await terminal.exit_code() == 0
    assert terminal.modes_now[:4] == terminal.modes[:4], "the terminal is as it was"


async def say(terminal: PtyProgram, text: str) -> None:
    """Send a message when nothing is asked any more, so that the next question is an answer to it."""
    await terminal.until(lambda: "the agent asks" not in terminal.shown)
    await terminal.type(text)


async def press_until(terminal: PtyProgram, keys: bytes, text: str) -> None:
    """Press a key until it has an effect: a question takes none in its first half second."""
    await terminal.until(lambda: "the agent asks" in terminal.shown)
    await asyncio.sleep(0.6)
    terminal.press(keys)
    await terminal.shows(text)


async def test_a_conversation_with_an_approval_by_one_key(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.turn(session, "say before you came")
    async with attached("attach", session[:8]) as terminal:
        await terminal.shows("before you came")
        await terminal.shows("idle · demo")
        await terminal.type("say hello **brave** `new` world")
        await terminal.shows("hello brave new world")
        # As a slow connection delivers it, or a program that types.
        terminal.press(b"say all of it at once" + ENTER)
        await terminal.until(lambda: "\n all of it at once" in terminal.shown)
        await say(terminal, "write note.txt a line")
        await press_until(terminal, b"y", "approved by")
        await terminal.shows("note.txt is done.")
        assert terminal.shown.count("+a line") == 1, "the change is shown once"
        assert (Path(hub.directory()) / "note.txt").exists()
        await say(terminal, "run seq 1 40")
        await press_until(terminal, b"y", "36 more lines")
        terminal.press(UNFOLD)
        await terminal.until(lambda: "more lines" not in terminal.shown and "\n   40" in terminal.shown)
        await leave(terminal)
        await terminal.told(f"farsteer attach {session[:8]}")
    await account.until(session, "idle")


async def test_questions_and_plans_with_all_their_answers(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    async with attached("attach", session) as terminal:
        await terminal.shows("F1 help")
        await say(terminal, "ask")
        await press_until(terminal, b"2", "You chose colour: green")
        await say(terminal, "plan many")
        await terminal.shows("Plan B: the big change")
        await press_until(terminal, b"2", "Approve the plan")
        await press_until(terminal, b"y", "It was Plan B")
        await say(terminal, "plan")
        await press_until(terminal, b"r", "why not, or what to do instead")
        await terminal.type("smaller steps")
        await terminal.shows("I drop the plan: smaller steps")


async def test_a_key_does_not_answer_a_question_that_has_just_appeared(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    async with attached("attach", session) as terminal:
        await terminal.shows("F1 help")
        terminal.press(b"y")
        await terminal.shows("│ y")
        await account.say(session, "write note.txt hi")
        await terminal.shows("the agent asks")
        terminal.press(b"es")
        await terminal.shows("│ yes")
        assert len((await account.session(session))["approvals"]) == 1
        terminal.press(ESCAPE)
        await asyncio.sleep(0.6)
        terminal.press(b"n")
        await terminal.shows("denied by")
    assert not (Path(hub.directory()) / "note.txt").exists()


async def test_waiting_messages_and_settings(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    async with attached("attach", session) as terminal:
        await terminal.shows("F1 help")
        await terminal.type("slow 2000")
        await terminal.shows("word5")
        await terminal.type("say unwanted")
        await terminal.shows("queued: say unwanted")
        await terminal.type("say wanted")
        await terminal.shows("queued: say wanted")
        terminal.press(QUEUE)
        await terminal.shows("d cancels")
        terminal.press(b"d")
        await terminal.until(lambda: "queued: say unwanted" not in terminal.shown)
        terminal.press(INTERRUPT)
        await terminal.shows("turn ended: cancelled")
        await terminal.until(lambda: "\n wanted" in terminal.shown and "idle" in terminal.shown)
        terminal.press(SHIFT_TAB)
        await terminal.shows("Permission mode")
        terminal.press(b"acceptE")
        await terminal.until(lambda: "read-only" not in terminal.shown)
        terminal.press(ENTER)
        await terminal.shows("now acceptEdits by owner")
        terminal.press(MODEL)
        await terminal.shows("demo-1-mini")
        terminal.press(b"mini")
        await terminal.until(lambda: "mini  as typed" in terminal.shown)
        terminal.press(ENTER)
        await terminal.shows("demo · demo-1-mini · acceptEdits")
        terminal.press(INTERRUPT)
        await terminal.shows("no turn is running; Ctrl-C again leaves")
        terminal.press(INTERRUPT)
        assert await terminal.exit_code() == 0
    shown = await account.session(session)
    assert (shown["model"], shown["permissionMode"]) == ("demo-1-mini", "acceptEdits")


async def test_rewind_and_fork_from_the_list(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    for word in ("first", "second", "third"):
        await account.turn(session, f"say {word}")
    async with attached("attach", session) as terminal:
        await terminal.shows("> say third")
        terminal.press(REWIND)
        await terminal.shows("Enter rewinds · k keeps the files · f forks before it · Esc closes")
        terminal.press(DOWN + ENTER)
        await terminal.shows("│ say second")
        await terminal.until(
            lambda: "> say second" not in terminal.shown and "> say third" not in terminal.shown
        )
        terminal.press(ENTER)
        await terminal.until(lambda: "> say second" in terminal.shown and "idle" in terminal.shown)
        terminal.press(REWIND)
        await terminal.shows("Enter rewinds")
        terminal.press(b"f")
        await terminal.shows("Fork of")
        await terminal.until(lambda: "> say first" in terminal.shown and "> say second" not in terminal.shown)
        await terminal.shows("│ say second")
    assert len((await account.get_json("/api/sessions"))["sessions"]) == 2


async def test_80_columns_without_colours(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.turn(session, "slow 60")
    async with attached("attach", session, environment={"NO_COLOR": "1"}) as terminal:
        await terminal.shows("word60")
        terminal.resize(24, 80)
        words = [f"word{number}" for number in range(1, 61)]
        # No word is broken.
        await terminal.until(lambda: re.findall(r"\bword\d+\b", terminal.shown) == words)
        await terminal.until(lambda: "F1 help" in terminal.screen.display[23])
        terminal.press(SHIFT_TAB)
        await terminal.shows("asks before it changes anything")
        terminal.press(ESCAPE)
        await terminal.until(lambda: "Permission mode" not in terminal.shown)
        await leave(terminal)
    assert not COLOURS.search(terminal.output)


async def test_farsteer_alone_makes_a_session_and_opens_it(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account, title="an older \x1b[31msession")
    async with attached(cwd=hub.directory()) as terminal:
        await terminal.shows("an older [31msession")
        terminal.press(ENTER)
        await terminal.shows("Which directory")
        terminal.press(ENTER)
        await terminal.shows("Which agent?")
        terminal.press(b"demo" + ENTER)
        await terminal.shows("F1 help")
        await terminal.type("say hello from a new one")
        await terminal.until(lambda: "\n hello from a new one" in terminal.shown)
        await leave(terminal)
    sessions = (await account.get_json("/api/sessions"))["sessions"]
    assert len(sessions) == 2
    assert {one["directory"] for one in sessions} == {hub.directory()}
    assert session in [one["id"] for one in sessions]


async def test_a_hub_that_restarts_loses_and_doubles_nothing(tmp_path: Path, free_port: int) -> None:
    async with Daemons(tmp_path, free_port) as daemons:
        daemons.runner().start()
        await daemons.wait_until_connected()
        session = await daemons.start_session()
        environment = {"CLI_API_TOKEN": TOKEN, "FARSTEER_HOME": str(tmp_path / "client")}
        argv = ("attach", session, "--hub", daemons.url)
        async with attached(*argv, environment=environment) as terminal:
            await terminal.shows("connected · F1 help")
            await terminal.type("work 40 0.1")
            await terminal.shows("working")
            await daemons.hub.stop()
            await terminal.shows("NOT CONNECTED")
            await terminal.type("say typed meanwhile")
            await terminal.shows("not sent yet: say typed meanwhile")
            daemons.hub.start()
            await terminal.until(lambda: "NOT CONNECTED" not in terminal.shown, 40)
            await terminal.until(lambda: "\n typed meanwhile" in terminal.shown, 40)
            assert terminal.shown.count("> say typed meanwhile") == 1
            steps = re.findall(r"[Ss]tep (\d+)", "\n".join(terminal.shown.splitlines()))
            assert len(steps) == len(set(steps))
            await leave(terminal)


async def test_a_long_log_opens_at_its_end_and_scrolls_back(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.turn(session, "say the very first")
    await account.say(session, "flood 5000")
    await account.until(session, "idle")
    begun = time.monotonic()
    async with attached("attach", session) as terminal:
        await terminal.shows("flood 5009")
        assert time.monotonic() - begun < 10, "it does not read the whole log first"
        seen = numbers(terminal)
        while seen[0] > 4500:
            top = seen[0]
            terminal.press(PAGE_UP)
            await terminal.until(lambda top=top: is_page_before(numbers(terminal), top))
            seen = numbers(terminal) + seen
        assert {*range(seen[0], 5010)} == {*seen}, "nothing is left out on the way"


def numbers(terminal: PtyProgram) -> list[int]:
    return [int(number) for number in re.findall(r"flood (\d+) ", terminal.shown)]


def is_page_before(shown: list[int], top: int) -> bool:
    """Return whether a whole screen is shown that reaches to where the last one began."""
    return bool(shown) and shown[0] < top <= shown[-1] + 1 and shown == [*range(shown[0], shown[-1] + 1)]


async def test_plain_mode_moves_no_cursor(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.turn(session, "say \x1b[31mbefore")
    async with attached("attach", session, "--plain") as terminal:
        await terminal.shows("before")
        await terminal.type("slow 30")
        await terminal.shows("word30")
        await terminal.shows("(ready)")
        await terminal.type("write note.txt hi")
        await terminal.shows("[y]es, [n]o")
        await terminal.type("perhaps")
        await terminal.shows("not understood")
        await terminal.type("y")
        await terminal.shows("approved by owner")
        await terminal.type(":mode plan")
        await terminal.shows("now plan by owner")
        await terminal.type(":status")
        await terminal.shows("idle, demo, plan")
        await terminal.type(":rewind")
        await terminal.shows("slow 30")
        await terminal.type(":fork")
        await terminal.shows("Fork of")
        terminal.press(END)
        assert await terminal.exit_code() == 0
    assert b"\x1b" not in terminal.output
    assert terminal.output.count(b"word30") == 1


async def test_a_dumb_terminal_gets_plain_mode_and_chooses_line_by_line(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account, title="the one")
    async with attached(term="dumb", cwd=hub.directory()) as terminal:
        await terminal.shows("2. the one, idle, demo")
        await terminal.type("2")
        await terminal.shows(f"session {session[:8]}")
        terminal.press(INTERRUPT)
        await terminal.shows("Ctrl-C again leaves")
        terminal.press(INTERRUPT)
        assert await terminal.exit_code() == 0
    assert b"\x1b" not in terminal.output


async def test_without_a_terminal_it_prints_a_plain_log(hub: Stack) -> None:
    account: Account = await hub.sign_in()
    session = await hub.create(account, title="logged")
    await account.turn(session, "say one")
    process = await start("attach", session[:8], "--tail", "3")
    assert process.stdout is not None
    async with asyncio.timeout(30):
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


async def test_farsteer_alone_without_a_hub_or_a_terminal_prints_help(home: Path) -> None:
    async with attached(cwd=home) as terminal:
        await terminal.shows("first steps:")
        assert await terminal.exit_code() == 0
    result = await finish(await start())
    assert result.out.startswith("Farsteer ")
