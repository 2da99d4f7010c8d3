"""The installed Claude Code: version, warning, login."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farsteer.agents.base import LaunchPlan
from farsteer.agents.claude import cli
from farsteer.agents.claude.adapter import ClaudeAdapter
from farsteer.agents.conformance.harness import RecordingSink
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.launch import LaunchDecision, LaunchMode


def installed(folder: Path, version: str) -> str:
    """Write a program in a package of this version, as npm does."""
    package = folder / "node_modules" / "@anthropic-ai" / "claude-code-linux-x64"
    package.mkdir(parents=True)
    (package / "package.json").write_text(
        json.dumps({"name": "@anthropic-ai/claude-code-linux-x64", "version": version})
    )
    program = package / "claude"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in (*cli.KEY_VARIABLES, "CLAUDE_CONFIG_DIR", "CLAUDE_EXECUTABLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("version", "warns"),
    [
        (None, False),
        (cli.PROGRAM.tested_version, False),
        ("1.0.120", False),
        ("2.1.9", False),
        ("2.1.10000", True),
        ("3.0.0-beta.1", True),
    ],
)
def test_a_newer_version_than_the_tested_one_is_warned_about(version: str | None, *, warns: bool) -> None:
    warning = cli.PROGRAM.version_warning(version)
    assert (warning is not None) == warns
    if warning is not None:
        assert str(cli.PROGRAM.tested_version) in warning


async def test_a_newer_version_is_available_with_its_warning(tmp_path: Path) -> None:
    info = await ClaudeAdapter(installed(tmp_path, "99.0.0")).detect()
    assert (info.available, info.version) == (True, "99.0.0")
    assert info.warning is not None
    assert info.login == "claude auth login"


async def test_a_missing_program_says_how_to_install_it(tmp_path: Path) -> None:
    info = await ClaudeAdapter().detect()
    assert (info.available, info.install) == (False, "npm install -g @anthropic-ai/claude-code")
    assert info.reason
    assert info.login is None


async def test_a_start_without_the_program_fails_with_its_code(tmp_path: Path) -> None:
    decision = LaunchDecision(start=LaunchMode.CREATE, native_id=None)
    plan = LaunchPlan(session_id="s", directory=str(tmp_path), generation=1, decision=decision)
    with pytest.raises(AgentError) as caught:
        await ClaudeAdapter().start(plan, RecordingSink())
    assert caught.value.code is ErrorCode.AGENT_NOT_INSTALLED


def test_the_program_is_found_where_installers_put_it(tmp_path: Path) -> None:
    assert cli.PROGRAM.find() is None
    place = tmp_path / ".local" / "bin" / "claude"
    place.parent.mkdir(parents=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    assert cli.PROGRAM.find() == str(place)


def test_nobody_is_logged_in_on_a_new_machine() -> None:
    assert not cli.is_logged_in()


@pytest.mark.parametrize("name", cli.KEY_VARIABLES)
def test_a_key_in_the_environment_is_a_login(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "")
    assert not cli.is_logged_in()
    monkeypatch.setenv(name, "1")
    assert cli.is_logged_in()


@pytest.mark.parametrize(
    ("file", "content", "logged_in"),
    [
        (".claude/.credentials.json", {"claudeAiOauth": {}}, True),
        (".claude.json", {"primaryApiKey": "sk"}, True),
        (".claude.json", {"projects": {}}, False),
        (".claude/settings.json", {"env": {"ANTHROPIC_AUTH_TOKEN": "token"}}, True),
        (".claude/settings.json", {"apiKeyHelper": "get-key"}, True),
        (".claude/settings.json", {"env": {"OTHER": "x"}, "theme": "dark"}, False),
        (".claude/settings.json", {"env": "broken"}, False),
        (".claude/settings.json", ["broken"], False),
    ],
)
def test_a_stored_login_is_found(tmp_path: Path, file: str, content: object, *, logged_in: bool) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    assert cli.is_logged_in() == logged_in


def test_another_config_folder_has_its_own_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / ".claude.json").write_text('{"primaryApiKey": "sk"}')
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(other))
    assert not cli.is_logged_in()
    (other / ".credentials.json").touch()
    assert cli.is_logged_in()
