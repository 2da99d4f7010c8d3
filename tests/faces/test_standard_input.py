"""Hostile and half input on standard input, and clients that leave: `farsteer acp` and Droid's protocol.

The commands answer or end, with exit code 0 and without a traceback.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from farsteer.core.lines import LINE_LIMIT

pytestmark = pytest.mark.slow

SECONDS = 40.0
_DROID = "stream-jsonrpc"
COMMANDS = {
    "acp": ["acp", "--agent", "demo"],
    "droid": ["exec", "--input-format", _DROID, "--output-format", _DROID, "--agent", "demo"],
}
HOSTILE = {
    "not UTF-8": b'{"id":1,"method":"\xff\xfe"}',
    "lone surrogate": b'{"id":1,"method":"\\ud800"}',
    "NUL": b"\0\0",
    "byte order mark": b'\xef\xbb\xbf{"id":1,"method":"x"}',
    "nested": b'{"id":1,"method":"x","params":' + b"[" * 900 + b"]" * 900 + b"}",
    "nested deeper than a decoder can follow": b'{"id":1,"method":"x","params":' + b"[" * 100_000,
    "batch of millions": b"[" + b"1," * 1_000_000 + b"1]",
    "over-long": b"x" * (LINE_LIMIT + 1),
    "cut off": b'{"id":1,"meth',
}


class Client:
    """A command, with its standard output as a pipe that the client can close."""

    def __init__(
        self, process: Process, output: asyncio.StreamReader, output_pipe: asyncio.ReadTransport
    ) -> None:
        assert process.stdin is not None
        self.process = process
        self.input = process.stdin
        self.output = output
        self.output_pipe = output_pipe

    async def ends_quietly(self) -> None:
        """Check the exit code and the log, which has plain lines at most."""
        assert self.process.stderr is not None
        async with asyncio.timeout(SECONDS):
            log = (await self.process.stderr.read()).decode()
            assert await self.process.wait() == 0, log
        assert "Traceback" not in log, log
        assert "never retrieved" not in log, log


@asynccontextmanager
async def running(command: str, project: Path) -> AsyncIterator[Client]:
    source, target = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "farsteer", *COMMANDS[command], stdin=PIPE, stdout=target, stderr=PIPE, cwd=project,
        env=dict(os.environ), start_new_session=True,
    )  # fmt: skip
    os.close(target)
    output = asyncio.StreamReader(limit=1024 * 1024)
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(output), os.fdopen(source, "rb")
    )
    try:
        yield Client(process, output, pipe)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
        pipe.close()


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.mark.parametrize("command", COMMANDS)
async def test_hostile_lines_are_answered_one_by_one(command: str, project: Path) -> None:
    async with running(command, project) as client:
        client.input.write(b"\n".join(HOSTILE.values()))  # the last line is cut off by the end of the input
        client.input.close()
        async with asyncio.timeout(SECONDS):
            answers = [json.loads(line) for line in (await client.output.read()).splitlines()]
        await client.ends_quietly()
    assert [answer["id"] for answer in answers] == [None] * len(HOSTILE)
    assert {answer["error"]["code"] for answer in answers} <= {-32600, -32700}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("data", [b"", b"\n\n", b"{"], ids=["nothing", "blank", "half"])
async def test_a_client_that_leaves_at_once(command: str, data: bytes, project: Path) -> None:
    async with running(command, project) as client:
        client.input.write(data)
        client.input.close()
        await client.ends_quietly()


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_closed_stdout_ends_the_command_although_stdin_is_open(command: str, project: Path) -> None:
    async with running(command, project) as client:
        client.output_pipe.close()
        await client.ends_quietly()


async def ask_for_permission(client: Client, project: Path) -> None:
    """Start a turn of an ACP session that waits for the client's permission."""

    def send(id: int, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        client.input.write(json.dumps(message).encode() + b"\n")

    send(0, "initialize", protocolVersion=1)
    send(1, "session/new", cwd=str(project), mcpServers=[])
    async with asyncio.timeout(SECONDS):
        async for line in client.output:
            message = json.loads(line)
            if message.get("id") == 1 and "result" in message:
                text = {"type": "text", "text": "write a.txt x"}
                send(2, "session/prompt", sessionId=message["result"]["sessionId"], prompt=[text])
            if message.get("method") == "session/request_permission":
                return
    raise AssertionError("the agent did not ask")


async def test_a_client_that_leaves_while_requests_of_both_sides_are_open(project: Path) -> None:
    async with running("acp", project) as client:
        await ask_for_permission(client, project)
        client.input.close()
        await client.ends_quietly()


async def test_a_client_that_reads_no_more_while_its_request_runs(project: Path) -> None:
    async with running("acp", project) as client:
        await ask_for_permission(client, project)
        client.output_pipe.close()
        await client.ends_quietly()
