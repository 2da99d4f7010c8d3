"""`farsteer race`: several agents, one prompt, one comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farsteer.cli.exit_codes import FAILURE
from tests.cli.conftest import RunCommand
from tests.support.repositories import git, make_repository
from tests.support.stack import Stack

pytestmark = pytest.mark.slow


async def test_agents_race_are_compared_and_one_is_picked(hub: Stack, run_command: RunCommand) -> None:
    project = make_repository(Path(hub.directory()))
    raced = await run_command(
        "race", "--agents", "demo,demo", "--dir", str(project), "--mode", "yolo", "--json", "write new.txt hello",
        "--test", "test", "-f", "new.txt",
    )  # fmt: skip
    assert raced.code == 0, raced.err
    runners = [json.loads(line) for line in raced.lines]
    assert [(one["agent"], one["result"], one["files"], one["additions"], one["test"]) for one in runners] == [
        ("demo", "end_turn", 1, 1, 0), ("demo", "end_turn", 1, 1, 0),
    ]  # fmt: skip
    assert len({one["branch"] for one in runners}) == 2
    assert "the test passed" in raced.err
    assert not (project / "new.txt").exists(), "nothing is merged by itself"

    winner, loser = runners
    account = await hub.sign_in()
    places = [Path((await account.session(one["session"]))["directory"]) for one in runners]
    early = await run_command("race", "pick", winner["session"])
    assert early.code == 1
    assert f"git -C {places[0]} add -A" in early.err
    git(places[0], "add", "-A")
    git(places[0], "commit", "-qm", "the winner")
    picked = await run_command("race", "pick", winner["session"][:13], "--discard-others")
    assert picked.code == 0, picked.err
    assert (project / "new.txt").read_text().strip() == "hello"
    assert (places[0].exists(), places[1].exists()) == (True, False)
    assert git(project, "branch", "--list", loser["branch"]) == ""


async def test_an_agent_that_cannot_begin_stops_no_other(hub: Stack, run_command: RunCommand) -> None:
    project = make_repository(Path(hub.directory()))
    raced = await run_command(
        "race", "--agents", "nobody,demo", "--dir", str(project), "say hello", "--test", "false"
    )
    assert raced.code == 0
    assert "agent_unknown" in raced.lines[1]
    assert "failed (1)" in raced.lines[2]
    assert (await run_command("race", "--agents", "nobody", "--dir", str(project), "x")).code == FAILURE


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["fix it"], 2, "--agents"),
        (["--agents", ",", "fix it"], 2, "1 to 10"),
        (["pick", "00000000"], 1, "00000000"),
    ],
)
async def test_what_is_no_race(
    hub: Stack, run_command: RunCommand, argv: list[str], code: int, said: str
) -> None:
    refused = await run_command("race", *argv)
    assert (refused.code, said in refused.err) == (code, True)


async def test_a_session_that_was_in_no_race_is_not_picked(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    refused = await run_command("race", "pick", await hub.create(account))
    assert (refused.code, "no race" in refused.err) == (2, True)
