"""`farsteer new`, `send` and `logs` with a hub."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.command import SECONDS, farsteer, finish, start
from tests.cli.conftest import RunCommand
from tests.support.stack import Stack

pytestmark = pytest.mark.slow


async def test_a_session_is_created_and_its_id_printed(
    hub: Stack, project: Path, run_command: RunCommand
) -> None:
    account = await hub.sign_in()
    argv = ["--agent", "demo", "--mode", "acceptEdits", "--model", "demo-1-mini", "--title", "the tests"]
    created = await run_command("new", str(project), *argv)
    assert created.code == 0
    session = await account.session(created.out.strip())
    assert (session["directory"], session["title"], session["source"]) == (str(project), "the tests", "cli")
    assert (session["permissionMode"], session["model"]) == ("acceptEdits", "demo-1-mini")


async def test_a_session_with_a_first_prompt(hub: Stack, project: Path) -> None:
    created = await farsteer("new", ".", "say hello", "--agent", "demo", cwd=project)
    account = await hub.sign_in()
    session = created.out.strip()
    await account.shows(session, lastMessage="hello", status="idle")
    piped = await farsteer("new", "--agent", "demo", ".", "-", text="say from a pipe", cwd=project)
    await account.shows(piped.out.strip(), lastMessage="from a pipe", status="idle")


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["fix the bug"], 2, "farsteer new . 'fix the bug'"),
        ([".", " "], 2, "empty"),
        (["--agent", "nobody"], 1, "farsteer agents"),
        (["--machine", "nowhere"], 1, "nowhere"),
        (["--mode", "reckless"], 2, "'acceptEdits'"),
    ],
)
async def test_a_session_that_cannot_be_created(
    hub: Stack, run_command: RunCommand, argv: list[str], code: int, said: str
) -> None:
    result = await run_command("new", *argv)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


async def test_another_machine_needs_a_directory(
    hub: Stack, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.cli.commands.conversation.socket.gethostname", lambda: "another-host")
    result = await run_command("new")
    assert (result.code, "farsteer new DIR" in result.err) == (2, True)


async def test_without_a_hub_it_says_how_to_start_one(home: Path, run_command: RunCommand) -> None:
    for argv in (["new"], ["send", "3f2a", "hello"], ["logs", "3f2a"], ["approvals"], ["watch"]):
        result = await run_command(*argv)
        assert (result.code, "farsteer up" in result.err) == (3, True)


async def test_a_message_is_sent(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    sent = await run_command("send", session[:8], "say", "two", "words")
    assert sent.code == 0
    await account.shows(session, lastMessage="two words", status="idle")
    log = await account.messages(session)
    (message,) = [entry["content"] for entry in log if entry["content"]["kind"] == "user_message"]
    assert (message["itemId"], message["text"]) == (sent.out.strip(), "say two words")


async def test_a_message_waits_behind_others_and_now_goes_first(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.say(session, "hang")
    await account.until(session, "working")
    assert (await run_command("send", session, "say later")).code == 0
    queued = await run_command("send", session, "say last")
    assert "queued behind 1" in queued.err
    answered = await run_command("send", session, "--now", "--wait", "say at once")
    assert (answered.code, answered.out) == (0, "at once\n")


async def test_waiting_prints_the_whole_answer(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    answered = await run_command("send", "--wait", session[:8], "say one\nsay two")
    assert (answered.code, answered.out) == (0, "one\n\ntwo\n")
    failed = await run_command("send", "--wait", session[:8], "fail no luck")
    assert (failed.code, "no luck" in failed.err) == (1, True)


async def test_waiting_says_that_an_approval_is_needed(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    process = await start("send", "--wait", session[:8], "write a.txt hello")
    assert process.stderr is not None
    async with asyncio.timeout(SECONDS):
        said = (await process.stderr.readline()).decode()
    assert "a.txt" in said
    approval = said.split("`farsteer approvals ")[1].split("`")[0]
    behind = await start("send", "--wait", session[:8], "say later")
    assert behind.stderr is not None
    async with asyncio.timeout(SECONDS):
        assert (await behind.stderr.readline()).decode() == said
    assert (await farsteer("approve", approval)).code == 0
    assert (await finish(process)).code == 0
    assert (await finish(behind)).out == "later\n"


async def test_steering_has_no_turn_to_wait_for(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    refused = await run_command("send", "--steer", "--wait", session, "hello")
    assert (refused.code, "turn of its own" in refused.err) == (2, True)
    await account.say(session, "slow 200")
    await account.until(session, "working")
    assert (await run_command("send", "--steer", session, "say steered")).code == 0


async def test_the_log_of_a_session(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.turn(session, "say hello")
    whole = await run_command("logs", session[:8])
    assert "> say hello" in whole.lines
    assert "hello" in whole.lines
    entries = [json.loads(line) for line in (await run_command("logs", "--json", session)).lines]
    assert [entry["seq"] for entry in entries] == [*range(1, len(entries) + 1)]
    last = [json.loads(line) for line in (await run_command("logs", "--json", "-n", "2", session)).lines]
    assert last == entries[-2:]


async def test_the_log_is_followed(hub: Stack) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.turn(session, "say hello")
    process = await start("logs", "-f", session[:8])
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        while await process.stdout.readline() != b"hello\n":
            pass
        await account.turn(session, "say again")
        while await process.stdout.readline() != b"again\n":
            pass
    await account.delete(f"/api/sessions/{session}")
    result = await finish(process)
    assert (result.code, result.err) == (0, "the session was deleted\n")
