"""Completion in the shells: made from the parsers, fast, and never loud."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from farsteer import AsyncClient
from farsteer.cli.completion_scripts import SCRIPTS
from farsteer.cli.main import COMMANDS
from farsteer.cli.parsers import Values, all_commands
from tests.cli.conftest import RunCommand
from tests.cli.test_main import loaded_after
from tests.support.eventually import eventually
from tests.support.stack import OWNER, Stack

BIN = Path(sys.executable).parent
LISTS = ("agents", "approvals", "machines", "providers", "sessions")
COMPLETE = """\
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_farsteer
printf '%s\\n' "${COMPREPLY[@]}"
"""


@cache
def script() -> str:
    """What `farsteer completion bash` prints."""
    return subprocess.run(
        [BIN / "farsteer", "completion", "bash"], capture_output=True, text=True, check=True, timeout=30
    ).stdout


def complete(*words: str, cwd: Path | None = None) -> list[str]:
    """Return what a real bash offers for the last word."""
    done = subprocess.run(
        ["bash", "--norc", "-euc", COMPLETE, "bash", "/dev/stdin", "farsteer", *words], input=script(),
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}, cwd=cwd, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_every_command_is_read_from_its_parser() -> None:
    found = {command.name: command for command in all_commands()}
    assert list(found) == list(COMMANDS)
    for command in found.values():
        flags = {flag for option in command.options for flag in option.flags}
        assert {"-h", "--help", "--home"} <= flags, command.name
    assert "--dry-run" in {flag for option in found["hub"].options for flag in option.flags}
    assert found["hub"].arguments == (Values("none", ("compact",)),)
    assert found["sessions"].arguments[1] == Values("sessions")
    assert found["sessions"].repeats
    assert found["attach"].arguments == (Values("sessions"),)
    assert found["import"].arguments == (Values("agents"), Values())


def test_reading_the_parsers_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    from farsteer.cli.main import main

    all_commands()
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit):
        main(["sessions", "--help"])
    assert "usage: farsteer sessions" in capsys.readouterr().out


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_has_every_command_and_option(shell: str) -> None:
    found = all_commands()
    script = SCRIPTS[shell](found)
    for command in found:
        assert command.name in script
        for option in command.options:
            for flag in option.flags:
                assert (f"-l {flag[2:]}" if shell == "fish" and flag.startswith("--") else flag) in script
    assert (
        "--list sessions" in script or "_farsteer_values sessions" in script or "values=(sessions)" in script
    )


@pytest.mark.slow
@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_shell_accepts_its_script(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"this machine has no {shell}")
    script = tmp_path / "script"
    script.write_text(SCRIPTS[shell](all_commands()))
    done = subprocess.run([program, "-n", str(script)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_bash_completes_commands_options_and_values(home: Path, tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sourcefile").touch()
    assert complete("ses") == ["sessions"]
    assert complete("exec", "--ef") == ["--effort"]
    assert complete("exec", "--agent", "de") == ["demo", "deepseek"]
    assert complete("exec", "--agent", "=", "dem") == ["demo"]
    assert complete("sessions", "--agent", "demo", "sh") == ["show"]
    assert complete("sessions", "--agent", "=", "demo", "sh") == ["show"]
    assert complete("hub", "c") == ["compact"]
    assert complete("agents", "login", "z") == ["zai"]
    assert complete("exec", "--cwd", "sour", cwd=tmp_path) == ["sources"]
    assert sorted(complete("backup", "sour", cwd=tmp_path)) == ["sourcefile", "sources"]
    assert complete("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.slow
async def test_bash_completes_the_sessions_and_machines_of_the_hub(hub: Stack, project: Path) -> None:
    async with AsyncClient(hub.url, OWNER) as client:
        session = await client.start(project, agent="demo", title="a title; $(touch pwned) `id`")
        machine = (await client.machines())[0]
        await session.send("run true")

        async def asks() -> bool:
            return bool(await client.approvals())

        await eventually(asks)
        approval = (await client.approvals())[0].approval
    assert await asyncio.to_thread(complete, "attach", session.id[:6], cwd=project) == [session.id]
    assert await asyncio.to_thread(complete, "sessions", "stop", "x", session.id[:6]) == [session.id]
    assert await asyncio.to_thread(complete, "exec", "--session", session.id[:6]) == [session.id]
    assert await asyncio.to_thread(complete, "machines", "release", machine.id[:6]) == [machine.id]
    assert await asyncio.to_thread(complete, "approve", approval.id[:6]) == [approval.id]
    assert not [*project.iterdir()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", LISTS)
def test_values_come_without_a_word_on_errors(
    kind: str, home: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARSTEER_HUB", f"http://127.0.0.1:{free_port}")
    monkeypatch.setenv("CLI_API_TOKEN", "a-token-of-nobody")
    done = subprocess.run(
        [BIN / "farsteer", "completion", "--list", kind], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (kind in ("agents", "providers"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LISTS)
def test_values_load_no_library_that_takes_long(kind: str, home: Path) -> None:
    """What a key press waits for: about 0.1 s, most of it imports. A time would depend on the other tests."""
    slow = {
        "httpx",
        "rich",
        "socketio",
        "starlette",
        "uvicorn",
        "farsteer.client.async_client",
        "farsteer.cli.parsers",
    }
    assert not slow & loaded_after(["completion", "--list", kind])


async def test_a_shell_must_be_named(run_command: RunCommand) -> None:
    assert (await run_command("completion")).code == 2
    result = await run_command("completion", "tcsh")
    assert result.code == 2
    assert "'bash', 'zsh', 'fish'" in result.err or "bash, zsh, fish" in result.err
