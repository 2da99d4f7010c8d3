"""`farsteer up`, `hub` and `runner`: from the ready line to the end of the process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from farsteer.client.config import hub_file
from tests.cli.command import farsteer, finish, start
from tests.cli.conftest import RunCommand


async def ready(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode()


@pytest.mark.slow
async def test_up_from_start_to_end(home: Path, project: Path) -> None:
    process = await start("up", "--port", "0", cwd=project)
    line = await ready(process)
    found = json.loads(hub_file(home).read_bytes())
    assert found["pid"] == process.pid
    assert line == f"Farsteer is ready at {found['url']}, its access token is in {home / 'token'}\n"
    assert stat.S_IMODE(hub_file(home).stat().st_mode) == 0o600

    second = await farsteer("up", "--port", "0")
    assert (second.code, second.out) == (1, "")
    assert f"process {process.pid}" in second.err
    assert found["url"] in second.err

    assert (await farsteer("exec", "say hello", cwd=project)).out == "hello\n"
    listed = await farsteer("sessions", "--json")
    assert [json.loads(row)["title"] for row in listed.lines] == ["say hello"]

    process.send_signal(signal.SIGTERM)
    result = await finish(process)
    assert (result.code, result.out) == (0, "")
    assert not hub_file(home).exists()
    assert (home / "token").read_text().strip() not in line + result.err


@pytest.mark.slow
async def test_a_killed_hub_is_ignored_and_can_start_again(home: Path, project: Path) -> None:
    process = await start("up", "--port", "0", cwd=project)
    await ready(process)
    process.kill()
    await finish(process)
    assert hub_file(home).exists()
    assert (await farsteer("exec", "say hello", cwd=project)).out == "hello\n"
    process = await start("up", "--port", "0", cwd=project)
    assert "ready" in await ready(process)
    process.send_signal(signal.SIGINT)
    assert (await finish(process)).code == 0


@pytest.mark.slow
async def test_a_port_in_use(home: Path) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        result = await farsteer("up", "--port", str(port))
    assert result.code == 3
    assert result.err.splitlines()[-1] == f"farsteer: port {port} is in use; try --port"


@pytest.mark.slow
async def test_hub_and_runner_as_separate_processes(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLI_API_TOKEN", "a-secret-for-this-test")
    hub = await start("hub", "--port", "0")
    line = await ready(hub)
    assert "its access token is in $CLI_API_TOKEN" in line
    url = json.loads(hub_file(home).read_bytes())["url"]
    nobody = await farsteer("exec", "hello")
    assert nobody.code == 3
    assert "farsteer runner" in nobody.err

    token = home.parent / "secret"
    token.write_text("a-secret-for-this-test\n")
    environment = {name: value for name, value in os.environ.items() if name != "CLI_API_TOKEN"}
    argv = ("runner", "--home", str(home.parent / "far"), "--hub", url, "--token-file", str(token))
    runner = await start(*argv, env=environment, cwd=project)
    assert await ready(runner) == f"This machine is connected to {url}\n"
    assert (await farsteer("exec", "say from afar", cwd=project)).out == "from afar\n"

    runner.send_signal(signal.SIGTERM)
    result = await finish(runner)
    assert result.code == 0
    assert "a-secret" not in result.err
    hub.send_signal(signal.SIGTERM)
    assert (await finish(hub)).code == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--hub", "http://192.0.2.1:3006"], "FARSTEER_ALLOW_INSECURE"),
        (["--hub", "nonsense"], "not a hub address"),
        (["--token-file", "/does/not/exist"], "--token-file"),
    ],
)
async def test_a_runner_with_wrong_arguments(
    home: Path, run_command: RunCommand, argv: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLI_API_TOKEN", "t")
    result = await run_command("runner", *argv)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
