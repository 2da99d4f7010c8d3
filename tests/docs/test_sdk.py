"""docs/sdk.md is executed, and a type checker finds nothing unknown in it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import farsteer
from farsteer import errors, events
from farsteer.core import errors as all_errors
from farsteer.core.events import SessionEvent
from farsteer.core.live_events import SENT
from farsteer.events import ToolKind
from tests.support.stack import OWNER, Stack
from tests.support.stack import farsteer as running

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sdk.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
HELLO, READS_ONLY, NEEDED, DASHBOARD, FIVE, EVENTS, LIVE = EXAMPLES
NEVER_RAISED = {"IdentityInUse", "MethodNotAllowed", "RequestTimeout", "UnsupportedMedia", "HeadersTooLarge"}
"""Answers to a program that speaks the protocol wrongly; the SDK does not."""
SECONDS = 60.0


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with running(home) as stack:
        yield stack


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


async def test_the_examples_run(stack: Stack) -> None:
    desk = Path(stack.directory())
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(desk),
        "FARSTEER_HUB": stack.url,
        "CLI_API_TOKEN": OWNER,
    }

    async def start(example: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-c", example, cwd=desk, env=environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def run(example: str) -> list[str]:
        process = await start(example)
        out, err = await asyncio.wait_for(process.communicate(), SECONDS)
        assert (process.returncode, err.decode()) == (0, "")
        return out.decode().splitlines()

    dashboard = await start(DASHBOARD)
    try:
        assert await run(HELLO) == ["hello", "word1 word2 word3 word4 word5"]
        *_, content = await run(READS_ONLY)
        assert content == "the whale"
        title, answer = await run(NEEDED)
        assert "echo hello" in title
        assert answer == "The command has run."
        answers = await run(FIVE)
        assert [line.split(":")[0] for line in answers] == [f"project-{number}" for number in range(1, 6)]
        for number in range(1, 6):
            assert (desk / f"project-{number}" / "README.md").read_text().strip() == "Hello"
        seen = await run(EVENTS)
        assert [line.split(":")[0] for line in seen] == ["edit", "says", "command", "says", "ended"]
        assert (await run(LIVE))[-1].endswith("ended: end_turn")
        account = await stack.sign_in()
        await account.say(await stack.create(account, title="Asks"), "run echo dolphins")
        assert dashboard.stdout is not None
        shown = ""
        async with asyncio.timeout(SECONDS):
            while not re.search(r"demo +waiting +Asks +asks: .*echo dolphins", shown):
                shown += (await dashboard.stdout.readline()).decode()
    finally:
        dashboard.terminate()
        await dashboard.communicate()
    assert re.search(r"demo +idle +Reads only", shown)


USER_CODE = """
import collections.abc
from typing import assert_type

from farsteer import (
    AgentView, ApprovalView, AsyncClient, AsyncSession, AsyncTurn, Client, LiveEvent, MachineView, MessageAccepted,
    Session, SessionView, Stream, Turn, TurnResult, TurnUpdate, errors,
)
from farsteer.events import (
    Approval, Entry, MachineUpdatedEvent, MessageReceivedEvent, SessionChanges, SessionUpdatedEvent, SyncEvent,
    ToolCall, ToolKind,
)


def use(client: Client) -> None:
    session = client.start(".", agent="demo", timeout=5)
    assert_type(session, Session)
    assert_type(session.ask("hello"), TurnResult)
    assert_type(session.wait("item"), TurnResult)
    assert_type(session.turn("hello"), Turn)
    assert_type(session.send("hello"), MessageAccepted)
    assert_type(session.view(), SessionView)
    assert_type(session.fork(seq=1), Session)
    assert_type(session.messages(), collections.abc.Iterator[Entry])
    assert_type(client.sessions(), collections.abc.Iterator[SessionView])
    assert_type(client.machines(), list[MachineView])
    assert_type(client.agents(timeout=1.0), list[AgentView])
    assert_type(client.approvals(), list[ApprovalView])
    assert_type(client.events(), Stream[LiveEvent])
    for event in client.events():
        assert_type(event.content, SyncEvent | None)
        match event.content:
            case SessionUpdatedEvent(data=changes):
                assert_type(changes, SessionChanges)
                assert_type(changes.apply_to(session.view()), SessionView)
            case MachineUpdatedEvent(data=machine):
                assert_type(machine, MachineView)
            case MessageReceivedEvent(message=entry):
                assert_type(entry, Entry)
            case _:
                pass
    for update in session.turn("hello"):
        assert_type(update, TurnUpdate)
        match update.event:
            case ToolCall() as call:
                assert_type(call.kind, ToolKind)
            case _:
                pass
    try:
        session.stop()
    except errors.ApprovalNeeded as needed:
        assert_type(needed.approval, Approval)


async def use_async(client: AsyncClient) -> None:
    session = await client.start(".", agent="demo", timeout=5)
    assert_type(session, AsyncSession)
    assert_type(await session.ask("hello"), TurnResult)
    assert_type(session.turn("hello"), AsyncTurn)
    assert_type(client.sessions(), collections.abc.AsyncIterator[SessionView])
    assert_type(await client.machines(), list[MachineView])
"""
MISTAKES = """
from farsteer import Client, Clinet
from farsteer.errors import TimedOutt

Client().start(".", agnet="demo")
Client().machines(timeout="soon")
"""


@pytest.mark.slow
def test_a_type_checker_sees_concrete_types_and_finds_mistakes(tmp_path: Path) -> None:
    settings = {
        "typeCheckingMode": "strict", "reportAny": "error", "reportUnknownMemberType": "error", "pythonVersion": "3.11",
    }  # fmt: skip
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"example_{number}.py").write_text(example)
    (tmp_path / "user_code.py").write_text(USER_CODE)
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson"],
        cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    found = [
        (Path(one["file"]).name, one["range"]["start"]["line"], one["message"])
        for one in json.loads(done.stdout)["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    assert [one for one in found if one[0] != "mistakes.py"] == []
    assert {line for name, line, _ in found if name == "mistakes.py"} == {1, 2, 4, 5}


def test_every_exported_class_has_a_docstring() -> None:
    for module in (errors, events, farsteer):
        for name in {*module.__all__} - {"__version__", "SessionEvent", "SyncEvent"}:
            assert getattr(module, name).__doc__, name


def test_the_tables_have_every_error_every_event_and_every_tool_kind() -> None:
    raised = {
        name
        for name, kind in vars(all_errors).items()
        if isinstance(kind, type) and issubclass(kind, all_errors.FarsteerError)
    } - NEVER_RAISED
    assert raised == {*errors.__all__} - {"ErrorCode"}
    table = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section("Errors"), re.MULTILINE)))
    )
    assert table == raised - {"FarsteerError"}
    assert all(name in str(errors.__doc__) for name in raised)
    classes = {kind.__name__ for kind in SessionEvent.__args__}
    table = set(
        re.findall(
            r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section("Events and tool kinds"), re.MULTILINE))
        )
    )
    assert table == classes
    assert classes < {*events.__all__}
    rows = re.findall(r"^\| (`.*?) \| (`.*?) \|", section("Live events"), re.MULTILINE)
    names, types = (re.findall(r"`(.+?)`", " ".join(column)) for column in zip(*rows, strict=True))
    assert dict(zip(types, names, strict=True)) == {type: kind.__name__ for type, kind in SENT.items()}
    assert {*names} < {*events.__all__}
    assert all(f"`{kind}`" in section("Events and tool kinds") for kind in ToolKind)
