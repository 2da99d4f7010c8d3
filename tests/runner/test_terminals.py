"""Terminals that attach to the runner: who is let in, and what a connection that ends leaves behind."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import TerminalCommand
from farsteer.agents.process.environment import LAUNCH_VARIABLE
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.ids import new_id
from farsteer.core.wire import decode, encode
from farsteer.runner.terminal_messages import (
    ADDRESS_FILE,
    MAX_LINE,
    Attach,
    EndProgram,
    HandedOver,
    ProgramEnded,
    ProgramFailed,
    ProgramStarted,
    Refused,
    RunProgram,
    TakeBack,
    ToTerminal,
)
from farsteer.runner.terminals import TerminalAddress, TerminalConnection, TerminalServer

pytestmark = pytest.mark.slow

SECONDS = 10.0
SESSION = new_id()
_decoder = msgspec.json.Decoder[ToTerminal](ToTerminal)


class Actor:
    """What the server tells the actor of a session."""

    def __init__(self) -> None:
        self.attached: asyncio.Queue[TerminalConnection] = asyncio.Queue()
        self.taken_back: asyncio.Queue[bool] = asyncio.Queue()
        self.lost: asyncio.Queue[TerminalConnection] = asyncio.Queue()

    def attach_terminal(self, terminal: TerminalConnection) -> None:
        self.attached.put_nowait(terminal)

    def take_back(self, terminal: TerminalConnection, *, interrupt: bool) -> None:
        self.taken_back.put_nowait(interrupt)

    def lose_terminal(self, terminal: TerminalConnection) -> None:
        self.lost.put_nowait(terminal)


class Client:
    """`farsteer run`, as the server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: Any) -> None:
        self.write(encode(message) + b"\n")

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def receive(self) -> Any:
        """Return the next message, None at the end."""
        async with asyncio.timeout(SECONDS):
            line = await self._reader.readline()
        return _decoder.decode(line) if line else None

    async def close(self) -> None:
        self._writer.close()


@pytest.fixture
def actor() -> Actor:
    return Actor()


@pytest.fixture
async def server(home: Path, actor: Actor) -> AsyncIterator[TerminalServer]:
    actors: dict[str, Any] = {SESSION: actor}
    server = TerminalServer(home, actors.get)
    await server.start()
    yield server
    await server.close()
    connections = asyncio.all_tasks() - {asyncio.current_task()}
    if connections:
        await asyncio.wait(connections, timeout=SECONDS)


def address(home: Path) -> TerminalAddress:
    return decode((home / ADDRESS_FILE).read_bytes(), TerminalAddress)


async def connect(home: Path) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", address(home).port))


async def attach(home: Path, actor: Actor, **fields: Any) -> tuple[Client, TerminalConnection]:
    client = await connect(home)
    client.send(Attach(secret=address(home).secret, session_id=SESSION, **fields))
    async with asyncio.timeout(SECONDS):
        return client, await actor.attached.get()


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for program in started:
        program.kill()
        program.wait()


def start_program(programs: list[subprocess.Popen[bytes]], mark: str) -> subprocess.Popen[bytes]:
    """Start a program with a launch mark; returns when the mark can be seen."""
    program = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import time; time.sleep(100)"],
        env={**os.environ, LAUNCH_VARIABLE: mark}, stdout=subprocess.PIPE,
    )  # fmt: skip
    programs.append(program)
    assert program.stdout is not None
    program.stdout.readline()
    program.stdout.close()
    return program


def command(mark: str) -> TerminalCommand:
    return TerminalCommand(argv=("agent",), environment={LAUNCH_VARIABLE: mark}, directory="/")


async def run_program(client: Client, terminal: TerminalConnection, mark: str, pid: int) -> None:
    running = asyncio.create_task(terminal.run(command(mark)))
    assert isinstance(await client.receive(), RunProgram)
    client.send(ProgramStarted(pid))
    async with asyncio.timeout(SECONDS):
        assert await running == pid


async def test_the_address_is_for_its_owner_only_and_gone_at_the_end(home: Path, actor: Actor) -> None:
    server = TerminalServer(home, {}.get)
    await server.start()
    path = home / ADDRESS_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(address(home).secret) >= 32
    await server.close()
    assert not path.exists()
    await server.close()


@pytest.mark.parametrize("secret", ["", "wrong", "é", "x" * 100_000])
async def test_a_wrong_secret_is_refused(
    home: Path, server: TerminalServer, actor: Actor, secret: str
) -> None:
    client = await connect(home)
    client.send(Attach(secret=secret, session_id=SESSION))
    answer = await client.receive()
    assert isinstance(answer, Refused)
    assert answer.error.code is ErrorCode.UNAUTHORIZED
    assert await client.receive() is None
    assert actor.attached.empty()
    await client.close()


async def test_an_unknown_session_is_refused(home: Path, server: TerminalServer, actor: Actor) -> None:
    client = await connect(home)
    client.send(Attach(secret=address(home).secret, session_id=new_id()))
    answer = await client.receive()
    assert isinstance(answer, Refused)
    assert answer.error.code is ErrorCode.NOT_FOUND
    await client.close()


@pytest.mark.parametrize(
    "line", [b"\n", b"no json\n", b"{}\n", b'{"do":"fly"}\n', b'{"do":"take_back"}\n', b"\xff\n", b"[" * 5000 + b"\n"]
)  # fmt: skip
async def test_a_bad_first_message_is_refused(
    home: Path, server: TerminalServer, actor: Actor, line: bytes
) -> None:
    client = await connect(home)
    client.write(line)
    answer = await client.receive()
    assert isinstance(answer, Refused)
    assert answer.error.code is ErrorCode.BAD_REQUEST
    assert actor.attached.empty()
    await client.close()


async def test_a_line_without_end_is_cut_off(home: Path, server: TerminalServer, actor: Actor) -> None:
    client = await connect(home)
    client.write(b"x" * (MAX_LINE + 65536))
    with suppress(ConnectionError):
        assert await client.receive() is None
    await client.close()


async def test_a_terminal_and_its_program(home: Path, server: TerminalServer, actor: Actor) -> None:
    given = {"TERM": "x", "FARSTEER_TOKEN": "secret", "CLI_API_TOKEN": "secret"}
    client, terminal = await attach(home, actor, arguments=("--verbose", "do it"), environment=given)
    assert terminal.environment == {"TERM": "x"}
    await run_program(client, terminal, "mark", 1 << 30)
    assert terminal.arguments == ("--verbose",), "the next program must not say it again"
    client.send(ProgramEnded(7))
    async with asyncio.timeout(SECONDS):
        assert await terminal.wait() == 7
    client.send(TakeBack(interrupt=True))
    async with asyncio.timeout(SECONDS):
        assert await actor.taken_back.get()
    terminal.hand_over("because")
    assert await client.receive() == HandedOver("because")
    await client.close()
    async with asyncio.timeout(SECONDS):
        assert await actor.lost.get() is terminal
    with pytest.raises(AgentError):
        await terminal.run(command("mark"))


async def test_a_program_that_cannot_be_started(home: Path, server: TerminalServer, actor: Actor) -> None:
    client, terminal = await attach(home, actor)
    running = asyncio.create_task(terminal.run(command("mark")))
    await client.receive()
    client.send(ProgramFailed("agent: no such file"))
    with pytest.raises(AgentError, match="no such file"):
        await running
    await client.close()


async def test_a_program_is_ended(home: Path, server: TerminalServer, actor: Actor) -> None:
    client, terminal = await attach(home, actor)
    await run_program(client, terminal, "mark", 1 << 30)
    ending = asyncio.create_task(terminal.end(1.0))
    assert await client.receive() == EndProgram(1.0)
    client.send(ProgramEnded(143))
    async with asyncio.timeout(SECONDS):
        await ending
    await terminal.end(1.0)
    await client.close()


async def test_a_lost_connection_kills_the_program_with_the_mark_and_no_other(
    home: Path, server: TerminalServer, actor: Actor, programs: list[subprocess.Popen[bytes]]
) -> None:
    mine, other = start_program(programs, "mine"), start_program(programs, "other")
    client, terminal = await attach(home, actor)
    await run_program(client, terminal, "mine", mine.pid)
    await client.close()
    async with asyncio.timeout(SECONDS):
        assert await terminal.wait() is None
    assert await asyncio.to_thread(mine.wait, SECONDS) is not None
    assert other.poll() is None

    client, terminal = await attach(home, actor)
    # The number has been given to a process that is not ours.
    await run_program(client, terminal, "mine", other.pid)
    await client.close()
    async with asyncio.timeout(SECONDS):
        assert await terminal.wait() is None
    assert other.poll() is None


async def test_a_terminal_that_does_not_answer_does_not_keep_its_program(
    home: Path, server: TerminalServer, actor: Actor, programs: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("farsteer.runner.terminals._END_MARGIN", 0.05)
    program = start_program(programs, "mine")
    client, terminal = await attach(home, actor)
    await run_program(client, terminal, "mine", program.pid)
    await terminal.end(0.05)
    assert await asyncio.to_thread(program.wait, SECONDS) is not None
    await client.close()


async def test_a_terminal_that_is_killed_before_it_tells_of_the_program(
    home: Path, server: TerminalServer, actor: Actor, programs: list[subprocess.Popen[bytes]]
) -> None:
    client, terminal = await attach(home, actor)
    running = asyncio.create_task(terminal.run(command("mine")))
    await client.receive()
    program = start_program(programs, "mine")
    await client.close()
    with pytest.raises(AgentError):
        await running
    assert await asyncio.to_thread(program.wait, SECONDS) is not None


async def test_garbage_ends_the_connection_and_the_session_is_told(
    home: Path, server: TerminalServer, actor: Actor
) -> None:
    client, terminal = await attach(home, actor)
    client.write(b"garbage\n")
    async with asyncio.timeout(SECONDS):
        assert await actor.lost.get() is terminal
    assert await client.receive() is None
    await client.close()
