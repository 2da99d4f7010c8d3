"""--log-level decides what is logged. The log goes to stderr, never has a secret, and stdout is for results."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import pytest

from farsteer import AsyncClient
from tests.cli.command import farsteer, start
from tests.cli.conftest import RunCommand

pytestmark = pytest.mark.slow

TOKEN = "the-owner-token-that-no-log-may-have"
RECORD = re.compile(r"^\d\d:\d\d:\d\d (DEBUG|INFO|WARNING|ERROR) farsteer\.", re.MULTILINE)


async def test_all_records_of_a_hub_a_runner_and_their_clients_have_no_secret(
    home: Path, project: Path, free_port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{free_port}"
    monkeypatch.setenv("CLI_API_TOKEN", TOKEN)
    monkeypatch.setenv("FARSTEER_LOG_LEVEL", "debug")
    hub = await start("hub", "--port", str(free_port))
    assert hub.stdout is not None
    first = await asyncio.wait_for(hub.stdout.readline(), 30)
    runner = await start("runner", "--hub", url, "--home", str(tmp_path / "other"))
    assert runner.stdout is not None
    connected = await asyncio.wait_for(runner.stdout.readline(), 30)
    try:
        async with AsyncClient(url, TOKEN) as client:
            session = await client.start(project, agent="demo", title="logged")
            made = await client.create_token("another")
            with pytest.raises(Exception, match="token"):
                async with AsyncClient(url, TOKEN + "-wrong") as wrong:
                    await wrong.machines()
        answer = await farsteer(
            "exec", "--log-level", "debug", "--hub", url, "-s", session.id, "say hello", cwd=project
        )
    finally:
        for process in (runner, hub):
            process.send_signal(signal.SIGTERM)
        logs = [(await process.communicate()) for process in (runner, hub)]
    assert answer.out == "hello\n"
    assert (b"ready at" in first, b"connected to" in connected) == (True, True)
    assert [out for out, _ in logs] == [b"", b""], "stdout has one line"
    text = answer.err + "".join(err.decode() for _, err in logs)
    assert RECORD.search(text)
    for secret in (TOKEN, made.secret, "eyJ"):
        assert secret not in text, secret


async def test_exec_logs_errors_only_unless_it_is_told_otherwise(home: Path, project: Path) -> None:
    quiet = await farsteer("exec", "--agent", "demo", "--quiet", "say hello", cwd=project)
    assert (quiet.out, quiet.err) == ("hello\n", "")
    (home / "config.toml").write_text('log_level = "info"\n')
    told = await farsteer("exec", "--agent", "demo", "--quiet", "say hello", cwd=project)
    assert told.out == "hello\n"
    assert RECORD.search(told.err)
    flag = await farsteer(
        "exec", "--agent", "demo", "--quiet", "--log-level", "error", "say hello", cwd=project
    )
    assert (flag.out, flag.err) == ("hello\n", "")


@pytest.mark.parametrize("command", ["up", "hub", "runner", "acp", "exec"])
async def test_an_unknown_level_is_refused_with_those_that_exist(
    command: str, run_command: RunCommand, home: Path
) -> None:
    result = await run_command(command, "--log-level", "loud")
    assert result.code == 2
    assert "debug" in result.err
    assert "warning" in result.err
