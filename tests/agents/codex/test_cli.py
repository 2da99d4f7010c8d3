"""The installed CLI: version, warning about a newer one, log-in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farsteer.agents.codex import cli
from farsteer.agents.codex.adapter import CodexAdapter
from tests.cli.command import farsteer
from tests.vendor.pins import CODEX


def test_the_tested_version_is_the_pinned_one() -> None:
    assert CODEX.version == cli.PROGRAM.tested_version


@pytest.mark.parametrize(
    ("version", "warns"),
    [
        (cli.PROGRAM.tested_version, False), ("0.1.9", False), (f"{cli.PROGRAM.tested_version}-alpha.3", False),
        (None, False), ("0.1000.0", True), ("1.0.0", True), ("99.0.0-alpha.1", True),
    ],
)  # fmt: skip
def test_a_newer_version_has_a_warning(version: str | None, warns: bool) -> None:
    warning = cli.PROGRAM.version_warning(version)
    assert (warning is not None) is warns
    if warning is not None:
        assert str(version) in warning


def install(folder: Path, version: str, name: str = "@openai/codex") -> Path:
    """Make a package as npm does, with a program that would not run."""
    program = folder / "node_modules" / "codex" / "bin" / "codex"
    program.parent.mkdir(parents=True)
    program.write_text("not a program")
    program.chmod(0o755)
    (program.parent.parent / "package.json").write_text(json.dumps({"name": name, "version": version}))
    return program


async def test_the_version_of_a_package_is_known_without_running_it(tmp_path: Path, home: Path) -> None:
    program = install(tmp_path, "99.1.2-linux-x64")
    info = await CodexAdapter(str(program)).detect()
    assert (info.available, info.version) == (True, "99.1.2")
    assert info.warning is not None


async def test_a_missing_cli_says_how_to_install_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CODEX_EXECUTABLE", raising=False)
    info = await CodexAdapter().detect()
    assert not info.available
    assert info.install == cli.INSTALL_COMMAND
    assert info.warning is None


@pytest.mark.slow
@pytest.mark.parametrize(("output", "version"), [("codex-cli 0.42.0", "0.42.0"), ("what?", None)])
async def test_another_program_is_asked(tmp_path: Path, output: str, version: str | None) -> None:
    program = tmp_path / "codex"
    program.write_text(f"#!/bin/sh\necho '{output}'\n")
    program.chmod(0o755)
    assert await cli.PROGRAM.find_version(str(program)) == version


def test_the_home_is_the_named_one() -> None:
    assert cli.codex_home({"CODEX_HOME": "/c", "HOME": "/h"}) == Path("/c")
    assert cli.codex_home({"HOME": "/h"}) == Path("/h/.codex")


@pytest.mark.parametrize(
    ("config", "is_ready"),
    [
        ("", False),
        ('model_provider = "ollama"', True),
        ('model_provider = "x"\n[model_providers.x]\nname = "x"', True),
        ('model_provider = "x"\n[model_providers.x]\nrequires_openai_auth = true', False),
        ('profile = "p"\n[profiles.p]\nmodel_provider = "lmstudio"', True),
        ("this is not = = toml", False),
    ],
)
def test_a_provider_of_ones_own_needs_no_login(tmp_path: Path, config: str, is_ready: bool) -> None:
    (tmp_path / "config.toml").write_text(config)
    assert cli.is_logged_in({"CODEX_HOME": str(tmp_path)}) is is_ready


def test_a_key_or_a_login_is_enough(tmp_path: Path) -> None:
    assert cli.is_logged_in({"CODEX_HOME": str(tmp_path), "OPENAI_API_KEY": "x"})
    (tmp_path / "auth.json").write_text("{}")
    assert cli.is_logged_in({"CODEX_HOME": str(tmp_path)})


@pytest.mark.slow
async def test_the_doctor_warns_of_a_newer_version(
    tmp_path: Path, home: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install(tmp_path, "99.1.2")
    for name, value in {
        "CODEX_EXECUTABLE": str(program),
        "OPENAI_API_KEY": "x",
        "PATH": "/usr/bin:/bin",
    }.items():
        monkeypatch.setenv(name, value)
    result = await farsteer("doctor", "--port", str(free_port))
    (line,) = [line for line in result.lines if "agent codex" in line]
    assert "99.1.2 is newer than" in line
