"""The first real agent: how to log in is said wherever somebody looks, and an agent that can work is preferred."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from farsteer.cli.commands import doctor
from farsteer.cli.commands.doctor import Grade, check_clock, check_hub, check_token
from farsteer.client.config import login_file
from tests.cli.conftest import RunCommand
from tests.support.droid_simulator import install
from tests.support.stack import OWNER, farsteer

pytestmark = pytest.mark.slow

HOW_TO_LOG_IN = ("/login", "FACTORY_API_KEY")


@pytest.fixture
def droid(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Droid, and nobody logged in."""
    for name in ("FACTORY_API_KEY", "CLAUDE_EXECUTABLE", "CODEX_EXECUTABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))


def says_how(text: str) -> bool:
    return all(word in text for word in HOW_TO_LOG_IN)


@pytest.mark.usefixtures("droid")
async def test_how_to_log_in_is_said_everywhere(home: Path, run_command: RunCommand) -> None:
    (line,) = [line for line in (await run_command("agents")).lines if line.startswith("droid ")]
    assert says_how(line), "whole, in 80 columns"
    assert says_how((await run_command("agents", "droid")).out)
    assert says_how((await run_command("doctor")).out)
    async with farsteer(home) as stack:
        agents = (await (await stack.sign_in()).get_json("/api/agents"))["agents"]
        (found,) = [agent for agent in agents if agent["name"] == "droid"]
        assert says_how(found["machines"][0]["login"])


@pytest.mark.usefixtures("droid")
async def test_exec_prefers_an_agent_that_can_work(
    home: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await run_command("exec", "say hello")).out == "hello\n"
    monkeypatch.setenv("FACTORY_API_KEY", "fk-test")
    named = await run_command("exec", "-o", "stream-json", "hello")
    assert '"agent":"droid"' in named.lines[0]


@pytest.mark.usefixtures("droid")
async def test_exec_says_how_to_log_in_when_the_agent_fails(home: Path, run_command: RunCommand) -> None:
    result = await run_command("exec", "--agent", "droid", "crash")
    assert result.code == 1
    assert "Factory Droid is not logged in" in result.err
    assert says_how(result.err)


@pytest.mark.usefixtures("droid")
async def test_an_unknown_agent_is_told_which_there_are(home: Path, run_command: RunCommand) -> None:
    for command in (["exec", "--agent", "nobody", "hello"], ["agents", "nobody"]):
        result = await run_command(*command)
        assert result.code == 1
        assert "ready: demo; not logged in: droid; not installed: claude, codex" in result.err


async def test_the_doctor_is_right_after_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    (tmp_path / "hub").mkdir(mode=0o700)
    (tmp_path / "user").mkdir(mode=0o700)
    async with farsteer(tmp_path / "hub") as stack:
        monkeypatch.setenv("FARSTEER_HOME", str(tmp_path / "user"))
        monkeypatch.setattr(sys, "stdin", (tmp_path / "token").open("w+"))
        sys.stdin.write(f"{OWNER}\n")
        sys.stdin.seek(0)
        assert (await run_command("login", "--hub", stack.url)).code == 0
        sys.stdin.close()
        assert login_file(tmp_path / "user").exists()
        result = await run_command("doctor")
        assert f"access token for {stack.url}" in result.out
        assert f"at {stack.url}" in result.out
        assert "1 of 1 machines connected" in result.out
        assert "no hub runs" not in result.out
        assert "agents of this machine cannot be used by the hub" in result.out
        assert f"`farsteer runner --hub {stack.url}` connects it" in result.out
        assert result.code == 0
    assert check_token(tmp_path / "user").grade is Grade.OK
    gone = [check async for check in check_hub(tmp_path / "user", None, 3006)]
    assert [check.grade for check in gone] == [Grade.FAIL]


async def test_the_doctor_compares_the_clocks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with farsteer(home) as stack:
        right = await check_clock(stack.url)
        assert right is not None
        assert right.grade is Grade.OK
        now = doctor.time.time()
        monkeypatch.setattr("farsteer.cli.commands.doctor.time.time", lambda: now + 3600)
        wrong = await check_clock(stack.url)
        monkeypatch.undo()
        assert wrong is not None
        assert wrong.grade is Grade.WARN
        assert "s ahead of the hub's" in wrong.finding
    assert await check_clock(stack.url) is None
