"""What `farsteer doctor` says about agents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farsteer.cli.commands.doctor import Check, Grade, check_agents
from tests.cli.conftest import RunCommand

PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex"}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is installed yet."""
    for name in ("CLAUDE_EXECUTABLE", "CODEX_EXECUTABLE", "FACTORY_EXECUTABLE", "GLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def install(programs: Path, agent: str, version: str) -> None:
    """Install an npm package whose program is never run: its package says the version."""
    package = programs.parent / agent
    package.mkdir()
    (package / "package.json").write_text(json.dumps({"name": PACKAGES[agent], "version": version}))
    (package / agent).write_text("#!/nonexistent\n")
    (package / agent).chmod(0o755)
    (programs / agent).symlink_to(package / agent)


async def checks(home: Path) -> list[Check]:
    return [check async for check in check_agents(home)]


@pytest.mark.parametrize(("agent", "key"), [("claude", "ANTHROPIC_API_KEY"), ("codex", "OPENAI_API_KEY")])
async def test_a_newer_cli_than_the_tested_one_is_a_warning(
    home: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, agent: str, key: str
) -> None:
    monkeypatch.setenv(key, "x")
    install(programs, agent, "99.1.2")
    (found,) = [check for check in await checks(home) if f"agent {agent} 99.1.2" in check.finding]
    assert found.grade is Grade.WARN
    assert "is newer than" in found.finding


async def test_an_agent_that_is_not_logged_in_says_how(home: Path, programs: Path) -> None:
    install(programs, "claude", "2.0.0")
    (found,) = [check for check in await checks(home) if "agent claude" in check.finding]
    assert (found.grade, found.advice) == (Grade.WARN, "claude auth login")


async def test_providers_without_a_key_are_one_note(
    home: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(programs, "claude", "2.0.0")
    monkeypatch.setenv("GLM_API_KEY", "x")
    found = await checks(home)
    (note,) = [check for check in found if "without a key" in check.finding]
    assert note.grade is Grade.NOTE
    assert "openrouter" in note.finding
    assert "glm" not in note.finding
    assert any(check.grade is Grade.OK and "agent glm 2.0.0 has a key" in check.finding for check in found)


async def test_the_login_of_an_agent_is_said(
    home: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (note,) = [check for check in await checks(home) if "need Claude Code" in check.finding]
    assert "glm" in note.finding
    install(programs, "claude", "2.0.0")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    (found,) = [check for check in await checks(home) if "agent claude" in check.finding]
    assert (found.grade, found.finding) == (Grade.OK, "agent claude 2.0.0 is logged in")


@pytest.mark.usefixtures("programs")
async def test_the_list_of_agents_has_each_command_that_installs_one_whole(
    home: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = await run_command("agents")
    for package in PACKAGES.values():
        assert f"install: npm install -g {package}" in listed.out
    assert max(map(len, listed.out.splitlines())) <= 80
