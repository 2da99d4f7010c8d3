"""`farsteer run` in a real terminal, with a runner that the test plays and programs that it names."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from farsteer.agents.base import TerminalCommand
from farsteer.core.errors import NotCapable
from farsteer.core.wire import encode
from farsteer.runner.terminal_messages import (
    ADDRESS_FILE,
    Attach,
    EndProgram,
    FromTerminal,
    HandedOver,
    ProgramEnded,
    ProgramFailed,
    ProgramStarted,
    Refused,
    RunProgram,
    TakeBack,
    ToTerminal,
)
from farsteer.runner.terminals import TerminalAddress
from farsteer.storage.home import write_secret
from tests.cli.command import farsteer
from tests.cli.conftest import RunCommand
from tests.support.eventually import eventually
from tests.support.processes import is_alive
from tests.support.pty_screen import ENTER, INTERRUPT, SUSPEND, PtyProgram
from tests.support.stack import Stack

pytestmark = pytest.mark.slow

SECONDS = 20.0
COMMAND = """
import os, sys
from pathlib import Path
from farsteer.cli import context
from farsteer.cli.errors import report_error
from farsteer.cli.terminal import agent_terminal
from farsteer.cli.terminal.agent_terminal import AgentTerminal
from farsteer.core.errors import FarsteerError, Unavailable

agent_terminal._DEAF_SECONDS = float(os.environ.get("DEAF_SECONDS", 0.2))

class NoHub:
    def events(self, *_, **__):
        raise Unavailable("the hub is away")

async def run():
    terminal = AgentTerminal(Path(sys.argv[1]), NoHub(), tuple(sys.argv[2:]))
    await terminal.wait_for_runner()
    return await terminal.run("session")

try:
    sys.exit(context.run(run()))
except FarsteerError as error:
    sys.exit(report_error(error))
"""
PROGRAM = """
import signal, sys, termios, tty
tty.setraw(0)
sys.stdout.write("\\x1b[?1000h\\x1b[?25l" + " ".join(sys.argv[1:]) + " runs\\r\\n----------")
sys.stdout.flush()
while (key := sys.stdin.buffer.raw.read(1)) not in (b"x", b""):
    sys.stdout.write(f"key {key!r}\\r\\n")
    sys.stdout.flush()
sys.exit(7)
"""
"""A full-screen program that leaves the terminal as it is when it ends."""

_decoder = msgspec.json.Decoder[FromTerminal](FromTerminal)


class Runner:
    """The runner's side of the connection."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._server: asyncio.Server | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.heard: asyncio.Queue[Any] = asyncio.Queue()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        write_secret(self._home / ADDRESS_FILE, encode(TerminalAddress(port, "secret")))

    async def end(self) -> None:
        """End as if it were killed: the file stays."""
        if self._server is not None:
            self._server.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        while line := await reader.readline():
            self.heard.put_nowait(_decoder.decode(line))
        writer.close()

    def say(self, message: ToTerminal) -> None:
        assert self._writer is not None
        self._writer.write(encode(message) + b"\n")

    async def hears(self, kind: type[Any]) -> Any:
        async with asyncio.timeout(SECONDS):
            message = await self.heard.get()
        assert isinstance(message, kind), message
        return message

    async def run(self, *words: str) -> psutil.Process:
        """Let the terminal run the program."""
        argv = (sys.executable, "-c", PROGRAM, *words)
        self.say(RunProgram(TerminalCommand(argv, {**os.environ}, str(self._home))))
        return psutil.Process((await self.hears(ProgramStarted)).pid)

    async def hand_over(self, reason: str = "a message") -> None:
        self.say(HandedOver(reason))
        self.say(EndProgram(2.0))
        assert (await self.hears(ProgramEnded)).exit_code == -signal.SIGTERM


@pytest.fixture
async def runner(home: Path) -> AsyncIterator[Runner]:
    runner = Runner(home)
    await runner.start()
    yield runner
    await runner.end()


def command(home: Path, *arguments: str) -> PtyProgram:
    return PtyProgram([sys.executable, "-c", COMMAND, str(home), *arguments], cwd=home)


async def test_the_program_has_the_terminal_and_its_exit_code_is_ours(home: Path, runner: Runner) -> None:
    async with command(home, "--model", "opus", "do it") as terminal:
        attach = await runner.hears(Attach)
        assert (attach.secret, attach.session_id, attach.wants) == ("secret", "session", True)
        assert attach.arguments == ("--model", "opus", "do it")
        assert attach.environment["TERM"] == "xterm-256color"
        await runner.run("agent")
        await terminal.shows("agent runs")
        terminal.press(INTERRUPT)
        await terminal.shows("key b'\\x03'")
        terminal.press(b"x")
        assert (await runner.hears(ProgramEnded)).exit_code == 7
        assert await terminal.exit_code() == 7
        assert terminal.modes_now == terminal.modes


async def test_a_hand_over_is_told_on_a_clean_line_and_enter_takes_back(home: Path, runner: Runner) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        for number in range(3):
            program = await runner.run(f"agent{number}")
            await terminal.shows(f"agent{number} runs")
            await runner.hand_over(f"reason{number}")
            await terminal.shows(f"goes on elsewhere (reason{number})")
            assert not is_alive(program)
            (line,) = [one for one in terminal.shown.splitlines() if f"(reason{number})" in one]
            assert line == f"farsteer: this conversation goes on elsewhere (reason{number})."
            await terminal.shows("the hub is away")
            terminal.clear()
            await terminal.press_until(ENTER, lambda: "Enter interrupts" in terminal.shown)
            assert await runner.hears(TakeBack) == TakeBack(interrupt=False)
            terminal.press(ENTER)
            assert await runner.hears(TakeBack) == TakeBack(interrupt=True)
        terminal.press(b"q")
        assert await terminal.exit_code() == 0
        assert terminal.modes_now == terminal.modes
        assert b"\x1b[?1000l" in terminal.output


async def test_keys_that_were_meant_for_the_program_neither_take_back_nor_leave(
    home: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEAF_SECONDS", "4")
    async with command(home) as terminal:
        await runner.hears(Attach)
        await runner.run("agent")
        await terminal.shows("agent runs")
        runner.say(HandedOver("a message"))
        runner.say(EndProgram(2.0))
        await terminal.shows("Enter takes it back")
        terminal.press(b"quick question\r")
        await runner.hears(ProgramEnded)
        await terminal.press_until(ENTER, lambda: "Enter interrupts" in terminal.shown)
        assert await runner.hears(TakeBack) == TakeBack(interrupt=False)
        assert terminal.process.poll() is None
        terminal.press(b"q")
        assert await terminal.exit_code() == 0


async def test_a_session_that_is_busy_is_waited_for_with_a_way_out(home: Path, runner: Runner) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        await terminal.shows("comes here when nothing else waits")
        terminal.press(ENTER)
        assert await runner.hears(TakeBack) == TakeBack(interrupt=True)
        terminal.press(INTERRUPT)
        assert await terminal.exit_code() == 0
        assert terminal.modes_now == terminal.modes


async def test_a_hand_over_before_the_program_runs_is_told(home: Path, runner: Runner) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        runner.say(HandedOver("stopped"))
        await terminal.shows("goes on elsewhere (stopped)")
        terminal.press(b"q")
        assert await terminal.exit_code() == 0


async def test_a_program_that_is_ended_at_once_is_ended_after_it_was_started(
    home: Path, runner: Runner
) -> None:
    """While the person waits, messages keep their order."""
    async with command(home) as terminal:
        await runner.hears(Attach)
        runner.say(HandedOver("first"))
        await terminal.shows("(first)")
        argv = (sys.executable, "-c", PROGRAM, "agent")
        runner.say(RunProgram(TerminalCommand(argv, {**os.environ}, str(home))))
        runner.say(HandedOver("second"))
        runner.say(EndProgram(2.0))
        program = await runner.hears(ProgramStarted)
        await runner.hears(ProgramEnded)
        assert not psutil.pid_exists(program.pid)
        await terminal.shows("(second)")
        terminal.press(b"\x1b[A")
        await terminal.press_until(b"q", lambda: terminal.process.poll() is not None)


async def test_a_refusal_is_told(home: Path, runner: Runner) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        runner.say(Refused(NotCapable("this agent cannot run in a terminal").record()))
        assert await terminal.exit_code() != 0
        await terminal.shows("this agent cannot run in a terminal")


async def test_a_refusal_ends_the_program(home: Path, runner: Runner) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        program = await runner.run("agent")
        await terminal.shows("agent runs")
        runner.say(Refused(NotCapable("this session was deleted").record()))
        assert await terminal.exit_code() != 0
        await terminal.shows("this session was deleted")
        assert not is_alive(program)
        assert terminal.modes_now == terminal.modes


async def test_a_program_that_does_not_exist_is_told_to_the_runner(home: Path, runner: Runner) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        runner.say(RunProgram(TerminalCommand(("/no/such/program",), {}, str(home))))
        assert "No such file" in (await runner.hears(ProgramFailed)).reason
        terminal.process.terminate()
        assert await terminal.exit_code() == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_the_program_and_restores_the_terminal(
    home: Path, runner: Runner, number: signal.Signals
) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        program = await runner.run("agent")
        await terminal.shows("agent runs")
        terminal.process.send_signal(number)
        assert await terminal.exit_code() == 128 + number
        assert not is_alive(program)
        assert terminal.modes_now == terminal.modes


async def test_a_program_that_is_killed_by_its_owner_ends_the_command(home: Path, runner: Runner) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        program = await runner.run("agent")
        await terminal.shows("agent runs")
        program.kill()
        assert await terminal.exit_code() == 128 + signal.SIGKILL
        assert terminal.modes_now == terminal.modes


async def test_a_runner_that_restarts_gets_the_terminal_back(home: Path, runner: Runner) -> None:
    async with command(home, "--model", "opus", "do it") as terminal:
        await runner.hears(Attach)
        program = await runner.run("agent")
        await terminal.shows("agent runs")
        await runner.end()
        terminal.press(b"y")
        await terminal.shows("key b'y'")
        await runner.start()
        program.kill()  # As the new runner does.
        attach = await runner.hears(Attach)
        assert (attach.wants, attach.arguments) == (True, ("--model", "opus"))
        await terminal.shows("waiting for it to come back")
        await runner.run("again")
        await terminal.shows("again runs")
        await runner.hand_over()
        await terminal.shows("Enter takes it back")
        await runner.end()
        await runner.start()
        assert not (await runner.hears(Attach)).wants
        await terminal.press_until(b"q", lambda: terminal.process.poll() is not None)


async def test_the_wait_for_a_runner_can_be_broken_off(home: Path, runner: Runner) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        await runner.end()
        await terminal.shows("waiting for it to come back")
        terminal.press(INTERRUPT)
        assert await terminal.exit_code() == 128 + signal.SIGINT


async def test_a_suspended_program_suspends_the_command_and_both_go_on(home: Path, runner: Runner) -> None:
    async with command(home) as terminal:
        await runner.hears(Attach)
        program = await runner.run("agent")
        await terminal.shows("agent runs")
        program.suspend()
        ours = psutil.Process(terminal.process.pid)
        await eventually(lambda: ours.status() == psutil.STATUS_STOPPED, SECONDS)
        os.killpg(terminal.process.pid, signal.SIGCONT)
        await eventually(lambda: ours.status() != psutil.STATUS_STOPPED, SECONDS)
        terminal.press(SUSPEND)
        await terminal.shows("key b'\\x1a'")
        terminal.press(b"x")
        assert await terminal.exit_code() == 7


# -- the command line


async def test_without_a_terminal_it_says_what_works(home: Path) -> None:
    result = await farsteer("run", "claude")
    assert result.code == 2
    assert "farsteer exec" in result.err


async def test_an_agent_must_be_named(run_command: RunCommand) -> None:
    result = await run_command("run")
    assert result.code == 2
    assert "AGENT" in result.err


async def test_an_unknown_mode_is_refused(run_command: RunCommand) -> None:
    result = await run_command("run", "--mode", "bold", "claude")
    assert result.code == 2
    assert "--mode" in result.err


async def test_without_a_runner_it_says_how_to_start_one(home: Path, hub: Stack) -> None:
    await hub.stop_runner()
    argv = [sys.executable, "-m", "farsteer", "run", "claude"]
    async with PtyProgram(argv, cwd=home) as terminal:
        assert await terminal.exit_code() != 0
        await terminal.shows("start one with `farsteer up`")
        assert terminal.modes_now == terminal.modes


async def test_an_agent_without_an_interface_of_its_own_is_refused(
    hub: Stack, runner: Runner, project: Path
) -> None:
    argv = [sys.executable, "-m", "farsteer", "run", "--dir", str(project), "demo"]
    async with PtyProgram(argv, cwd=project) as terminal:
        assert await terminal.exit_code() != 0
        await terminal.shows("cannot run in a terminal")
