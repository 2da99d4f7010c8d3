"""`farsteer sessions` with a hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farsteer.agents import registry
from tests.cli.conftest import RunCommand
from tests.support import other_agents
from tests.support.stack import Stack, announce, farsteer

pytestmark = pytest.mark.slow


async def test_sessions_from_list_to_delete(hub: Stack, run_command: RunCommand) -> None:
    empty = await run_command("sessions")
    assert (empty.code, empty.out) == (0, "")
    assert "no sessions" in empty.err
    account = await hub.sign_in()
    first = await hub.create(account, title="the first one")
    second = await hub.create(account, title="the second \x1b[2Jone")

    listed = await run_command("sessions")
    assert {line.split()[0] for line in listed.lines[1:]} == {first[:8], second[:8]}
    assert "\x1b" not in listed.out
    shown = await run_command("sessions", "show", first[:8])
    assert first in shown.out
    assert "the first one" in shown.out
    assert (await run_command("sessions", "rename", first, "another", "title")).code == 0
    await account.shows(first, title="another title")

    assert (await run_command("sessions", "stop", first, second)).code == 0
    await account.until(first, "stopped")
    assert (await run_command("sessions", "resume", first[:8])).code == 0
    await account.until(first, "idle")

    refused = await run_command("sessions", "delete", first)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert (await run_command("sessions", "delete", "--yes", first, second)).code == 0
    assert (await run_command("sessions", "--json")).out == ""


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["show", "00000000"], 1, "00000000"),
        (["show", "00000000-0000-4000-8000-000000000000"], 1, "farsteer sessions"),
        (["show"], 2, "needs an ID"),
        (["list", "x"], 2, "takes no ID"),
        (["explode", "x"], 2, "invalid choice"),
    ],
)
async def test_wrong_ids_and_actions(
    hub: Stack, run_command: RunCommand, argv: list[str], code: int, said: str
) -> None:
    result = await run_command("sessions", *argv)
    assert result.code == code
    assert said in result.err


async def test_an_ambiguous_beginning_is_refused(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    for _ in range(2):
        await hub.create(account, title="twin")
    result = await run_command("sessions", "show", "")
    assert result.code == 2
    assert "2 session ids start with" in result.err
    assert "twin" in result.err


async def test_a_conversation_is_rewound_forked_and_exported(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session = await hub.create(account, permissionMode="yolo")
    await account.turn(session, "remember the dolphin")
    await account.turn(session, "write whales.txt hello")
    log = await run_command("sessions", "log", session[:8])
    numbers = {line.split(maxsplit=1)[1]: line.split()[0] for line in log.lines}
    assert [*numbers] == ["remember the dolphin", "write whales.txt hello"]

    forked = await run_command("sessions", "fork", session[:8], "--title", "branch")
    assert (await account.session(forked.out.strip()))["title"] == "branch"

    back = await run_command("sessions", "rewind", session[:8], numbers["write whales.txt hello"])
    assert back.out.strip() == "write whales.txt hello"
    assert "files: full" in back.err
    assert not (Path(hub.directory()) / "whales.txt").exists()
    assert [line.split(maxsplit=1)[1] for line in (await run_command("sessions", "log", session)).lines] == [
        "remember the dolphin"
    ]

    lines = (await run_command("sessions", "export", session[:8])).lines
    assert json.loads(lines[0])["session"]["id"] == session
    page = await run_command("sessions", "export", session[:8], "--format", "markdown")
    assert "remember the dolphin" in page.out

    for argv, said in (
        (["rewind", session], "farsteer sessions log"),
        (["rewind", session, "x"], "farsteer sessions log"),
        (["fork", session, "1", "2"], "farsteer sessions log"),
        (["rewind", session, "999"], "999"),
    ):
        refused = await run_command("sessions", *argv)
        assert refused.code in (1, 2), argv
        assert said in refused.err


async def test_a_hostile_message_does_not_control_the_terminal(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    evil = "say \x1b]0;owned\x07\x9b2J\u202etxt.exe"
    log = await account.turn(session, evil)
    seq = str(next(entry["seq"] for entry in log if entry["content"]["kind"] == "user_message"))
    for arguments in (
        ["sessions"], ["sessions", "--json"], ["sessions", "show", session], ["sessions", "show", session, "--json"],
        ["sessions", "log", session], ["sessions", "log", session, "--json"], ["sessions", "export", session],
        ["sessions", "export", session, "--format", "markdown"], ["sessions", "rewind", session, seq],
    ):  # fmt: skip
        result = await run_command(*arguments)
        assert result.code == 0, result.err
        assert "owned" in result.out
        assert all(line.isprintable() for line in result.out.split("\n")), arguments
        if arguments[1:2] == ["log"] and "--json" in arguments:
            assert json.loads(result.out)["content"]["text"] == evil


async def test_sessions_that_only_the_machine_knows(home: Path, run_command: RunCommand) -> None:
    async with farsteer(home) as stack:
        account = await stack.sign_in()
        kept = await stack.create(account, title="keep this")
        dropped = await stack.create(account, title="drop this")
    for path in home.glob("hub.*"):
        if path.suffix != ".lock":
            path.unlink()
    async with farsteer(home) as stack:
        announce(stack)
        listed = await run_command("sessions")
        assert "2 more are known only to their machines" in listed.err
        doctor = await run_command("doctor")
        assert "2 sessions are known only to their machines" in doctor.out
        shown = await run_command("sessions", "foreign")
        assert {line.split()[0] for line in shown.lines[1:]} == {kept[:8], dropped[:8]}
        rows = [json.loads(row) for row in (await run_command("sessions", "foreign", "--json")).lines]
        assert {row["title"] for row in rows} == {"keep this", "drop this"}

        assert (await run_command("sessions", "adopt", "zzz")).code == 1
        adopted = await run_command("sessions", "adopt", kept[:8])
        assert (adopted.code, adopted.out.split()[0]) == (0, kept)
        refused = await run_command("sessions", "end", dropped)
        assert (refused.code, "--yes" in refused.err) == (2, True)
        assert (await run_command("sessions", "end", dropped, "--yes")).code == 0
        left = await run_command("sessions")
        assert [line.split()[0] for line in left.lines[1:]] == [kept[:8]]
        assert "known only" not in left.err
        assert (await run_command("sessions", "foreign")).out == ""


async def test_a_session_is_handed_over(
    home: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_in = {**registry._BUILT_IN, **other_agents.BUILT_IN}
    monkeypatch.setattr(registry, "_BUILT_IN", built_in)
    async with farsteer(home) as stack:
        announce(stack)
        account = await stack.sign_in()
        session = await stack.create(account, title="The seal")
        await account.turn(session, "say hello")
        handed = await run_command(
            "sessions", "handoff", session[:8], "other", "say", "goodbye", "--title", "On"
        )
        new = handed.out.strip()
        await account.shows(new, title="On", agent="other")
        assert session in (await run_command("sessions", "show", new)).out
        await account.shows(session, handedOffTo=[new])
        assert new in (await run_command("sessions", "show", session)).out
        refused = await run_command("sessions", "handoff", session)
        assert (refused.code, "AGENT" in refused.err) == (2, True)
