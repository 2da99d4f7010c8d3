"""The command as a whole: start-up, help, errors and exit codes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from farsteer import __version__
from farsteer.cli.errors import HINTS, report_error
from farsteer.cli.main import COMMANDS, main
from farsteer.core.api import LogLineView
from farsteer.core.errors import ErrorCode, Unprocessable
from tests.cli.command import farsteer, finish, start

HEAVY = {"asyncio", "argparse", "httpx", "msgspec", "rich", "socketio", "starlette", "uvicorn"}


def loaded_after(*calls: list[str]) -> set[str]:
    script = (
        "import sys\n"
        "from farsteer.cli.main import main\n"
        f"for argv in {calls!r}:\n"
        "    try: main(argv)\n"
        "    except SystemExit: pass\n"
        "print('LOADED', *sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    return set(done.stderr.partition("LOADED")[2].split())


@pytest.mark.slow
def test_version_and_overview_load_no_libraries() -> None:
    assert not HEAVY & loaded_after(["--version"], [], ["--help"], ["help"])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_worth_reading_and_needs_no_server(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main([command, "--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: farsteer {command}" in text
    assert "examples:\n  " in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.slow
def test_help_loads_no_library_of_the_hub() -> None:
    loaded = loaded_after(*([command, "--help"] for command in COMMANDS))
    assert not {"starlette", "uvicorn", "socketio", "httpx", "rich"} & loaded


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"farsteer {__version__}\n"


def test_without_a_command_it_prints_an_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert "exit codes" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "hint"),
    [("sesions", "farsteer sessions"), ("zzz", "lists the commands"), ("--frob", "unknown option")],
)
def test_an_unknown_command(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    said = capsys.readouterr()
    assert hint in said.err
    assert said.out == ""


async def test_without_a_hub_it_says_how_to_start_one(
    home: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await farsteer("sessions")
    assert (result.code, result.out) == (3, "")
    assert "farsteer up" in result.err
    assert len(result.err.splitlines()) == 1
    monkeypatch.setenv("CLI_API_TOKEN", "t")
    result = await farsteer("sessions", "--hub", f"http://127.0.0.1:{free_port}")
    assert result.code == 3
    assert result.err == (
        f"farsteer: no hub at http://127.0.0.1:{free_port}: nothing listens there; "
        "start a hub with `farsteer up`, or choose another with --hub\n"
    )


@pytest.mark.slow
async def test_a_foreign_hub_does_not_get_the_token_of_the_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65536))
        writer.close()

    (home / "token").write_text("the-owner-token-of-this-home")
    async with await asyncio.start_server(listen, "127.0.0.1", 0) as trap:
        url = f"http://127.0.0.1:{trap.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("FARSTEER_HUB", url)
        for command in (["sessions"], ["exec", "hello"], ["runner"], ["token", "list"]):
            result = await farsteer(*command)
            assert result.code != 0
            assert f"`farsteer login --hub {url}`" in result.err
            assert "the-owner-token" not in result.out + result.err
    assert heard == []


@pytest.mark.slow
async def test_a_traceback_only_in_debug_mode(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in (await farsteer("sessions")).err
    monkeypatch.setenv("FARSTEER_DEBUG", "1")
    result = await farsteer("sessions")
    assert "Traceback" in result.err
    assert result.code == 3


def test_every_hint_is_for_a_code_that_exists() -> None:
    assert set(HINTS) <= set(ErrorCode)


@pytest.mark.slow
async def test_a_closed_stdout_is_no_error(home: Path) -> None:
    process = await start("agents", "demo")
    assert process.stdout is not None
    process.stdout._transport.close()  # pyright: ignore[reportAttributeAccessIssue]
    result = await finish(process)
    assert result.err == ""
    assert result.code == 0


@pytest.mark.slow
def test_python_m_farsteer(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "farsteer", "--version"], capture_output=True, text=True, timeout=30
    )
    assert done.stdout == f"farsteer {__version__}\n"


def test_a_session_that_was_not_created_says_once_why(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        LogLineView(timestamp=1, step="machine", message="box is online", status="ok"),
        LogLineView(timestamp=2, step="agent", message="it has none", status="error"),
    ]
    assert report_error(Unprocessable("it has none", logs=steps)) == 1
    assert capsys.readouterr().err == "  ok     machine: box is online\nfarsteer: it has none\n"
