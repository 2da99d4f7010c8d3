"""An agent runs as the same user as its runner, and still finds no credential of the hub in another process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import psutil
import pytest

from tests.cli.command import finish
from tests.support.eventually import eventually
from tests.support.users import OrdinaryUser, ordinary_user

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux can close a process to its own user"),
]

SECRET = "the-secret-token-of-this-test"

SPY = r"""
import ctypes, os, sys
pid = int(sys.argv[1])
def attempt(name, work):
    try:
        print(name, "READ", work())
    except OSError as error:
        print(name, type(error).__name__)
def attach():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return "attached"
attempt("environ", lambda: open(f"/proc/{pid}/environ", "rb").read())
attempt("mem", lambda: open(f"/proc/{pid}/mem", "rb").fileno())
attempt("fd", lambda: os.listdir(f"/proc/{pid}/fd"))
attempt("maps", lambda: open(f"/proc/{pid}/maps").read(50))
attempt("ptrace", attach)
"""


class User:
    """An ordinary user who starts processes."""

    def __init__(self, user: OrdinaryUser) -> None:
        self.home = home = user.home
        self.farsteer_home = home / ".farsteer"
        self.project = home / "project"
        subprocess.run([*user.prefix, "mkdir", str(self.project)], check=True)
        self.prefix = user.prefix
        self._python = user.python
        self._environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "FARSTEER_HOME": str(self.farsteer_home),
            "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    @asynccontextmanager
    async def process(self, *argv: str, **variables: str) -> AsyncIterator[Process]:
        process = await asyncio.create_subprocess_exec(
            *self.prefix, self._python, "-m", "farsteer", *argv, stdin=PIPE, stdout=PIPE, stderr=PIPE,
            cwd=self.project, env={**self._environment, **variables},
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await finish(process)

    def spy(self, pid: int) -> dict[str, str]:
        """Return what a process of the same user can read of process `pid`."""
        argv = [*self.prefix, self._python, "-c", SPY, str(pid)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True, cwd=self.home)
        return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in done.stdout.splitlines()}


@pytest.fixture
def user() -> Iterator[User]:
    with ordinary_user() as user:
        yield User(user)


async def first_line(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode()


CLOSED = dict.fromkeys(("environ", "mem", "fd", "maps", "ptrace"), "PermissionError")


async def test_the_spy_reads_an_unprotected_process(user: User) -> None:
    """Otherwise the other tests would prove nothing."""
    argv = [*user.prefix, "sleep", "60"]
    sleeper = await asyncio.create_subprocess_exec(
        *argv, env={"CLI_API_TOKEN": SECRET, "PATH": os.environ["PATH"]}
    )
    try:
        await eventually(lambda: SECRET in user.spy(sleeper.pid)["environ"])
    finally:
        sleeper.kill()
        await sleeper.wait()


@pytest.mark.parametrize("command", ["up", "hub"])
async def test_an_agent_cannot_read_the_process_of_the_hub(user: User, command: str) -> None:
    async with user.process(command, "--port", "0", CLI_API_TOKEN=SECRET) as process:
        assert "ready" in await first_line(process)
        assert user.spy(process.pid) == CLOSED


async def test_an_agent_cannot_read_the_process_of_the_runner(user: User) -> None:
    async with user.process("hub", "--port", "0", CLI_API_TOKEN=SECRET) as hub:
        assert "ready" in await first_line(hub)
        url = json.loads((user.farsteer_home / "hub.json").read_bytes())["url"]
        away = str(user.home / "away")
        async with user.process("runner", "--home", away, "--hub", url, CLI_API_TOKEN=SECRET) as runner:
            assert "connected" in await first_line(runner)
            assert user.spy(runner.pid) == CLOSED


async def test_an_agent_cannot_read_the_process_of_a_client(user: User) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    async with user.process("acp", CLI_API_TOKEN=SECRET) as editor:
        assert editor.stdin is not None
        editor.stdin.write(json.dumps(request).encode() + b"\n")
        assert json.loads(await first_line(editor))["id"] == 1
        assert user.spy(editor.pid) == CLOSED


async def test_an_agent_finds_no_credential_in_its_environment_or_that_of_its_runner(user: User) -> None:
    script = "env; R=$(cut -d' ' -f4 /proc/$PPID/stat); echo runner $R; cat /proc/$R/environ /proc/$R/fd/*"
    argv = ("exec", "--permission-mode", "yolo", f"run ({script}) > seen 2>&1")
    async with user.process(*argv, CLI_API_TOKEN=SECRET) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert (await finish(process)).code == 0
    seen = (user.project / "seen").read_text()
    assert f"runner {process.pid}\n" in seen
    assert f"/proc/{process.pid}/environ: Permission denied" in seen
    assert "FARSTEER_LAUNCH=" in seen
    assert SECRET not in seen
    assert "CLI_API_TOKEN" not in seen


async def test_a_protected_runner_still_ends_processes_that_left_their_agent(user: User) -> None:
    async with user.process("exec", "--permission-mode", "yolo", "escape twice") as process:
        assert process.stdin is not None
        process.stdin.close()
        result = await finish(process)
    found = re.search(r"Process (\d+) has left", result.out)
    assert found, result.err
    await eventually(lambda: not psutil.pid_exists(int(found[1])))


async def test_a_protected_hub_still_answers_metrics(user: User) -> None:
    async with user.process("up", "--port", "0", CLI_API_TOKEN=SECRET) as process:
        await first_line(process)
        url = json.loads((user.farsteer_home / "hub.json").read_bytes())["url"]
        async with httpx.AsyncClient(base_url=url) as client:
            token = (await client.post("/api/auth", json={"accessToken": SECRET})).json()["token"]
            answer = await client.get("/metrics", headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 200
        assert "process_open_fds" in answer.text


async def test_the_credentials_of_a_home_are_readable_by_their_owner_only(user: User) -> None:
    async with user.process("up", "--port", "0") as process:
        assert "ready" in await first_line(process)
        home = user.farsteer_home
        assert home.stat().st_mode & 0o777 == 0o700
        for name in ("token", "jwt.key", "machine.key", "machine-id", "hub.json", "hub.db", "runner.db"):
            assert (home / name).stat().st_mode & 0o777 == 0o600, name
