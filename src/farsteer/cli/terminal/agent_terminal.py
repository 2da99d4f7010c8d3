"""This terminal as the place where an agent's own interface runs, and what it shows while that does not run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from farsteer.agents.base import TerminalCommand
from farsteer.agents.terminal_arguments import without_prompt
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.follower import Follower
from farsteer.cli.terminal.keyboard import raw_keys
from farsteer.cli.terminal.log_view import entry_lines
from farsteer.core.errors import FarsteerError, Unavailable
from farsteer.core.events import Delta
from farsteer.core.wire import decode, decode_with, encode
from farsteer.runner.terminal_messages import (
    ADDRESS_FILE,
    MAX_LINE,
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
from farsteer.storage.home import read_secret

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

_MODES = (1000, 1002, 1003, 1006, 1004, 2004)
_RESET = "".join(f"\x1b[?{mode}l" for mode in _MODES) + "\x1b[?25h\x1b[<u\x1b[>4;0m\x1b[0m"
"""Puts back what a full-screen program may have left: cursor, mouse and keyboard modes."""
_CLEAN_LINE = "\r\x1b[J"
"""Nothing of the program is left at the cursor and below it."""
_LAST_LINE = "\x1b[?1047l\x1b[999;1H\r\n"
"""For a program that was killed, and has left its own screen and the cursor anywhere."""
_START_SECONDS = 3.0
"""How long to wait for a runner that has just been started."""
_RUNNER_SECONDS = 20.0
"""How long to wait for a runner that restarts."""
_RETRY_SECONDS = 0.25
_HUB_RETRY_SECONDS = 2.0
_QUIET_SECONDS = 0.5
"""How long the session may take to start the program before the person is told that it waits."""
_DEAF_SECONDS = 1.0
"""Keys that are typed so soon after the program has ended were meant for it."""
_TAKE_KEYS = b"\r\n"
_LEAVE_KEYS = b"q\x03\x04"
_SUSPEND_KEY = 0x1A

_decoder = msgspec.json.Decoder[ToTerminal](ToTerminal)


class RunnerLost(NamedTuple):
    """The connection to the runner has ended."""


class ProgramExited(NamedTuple):
    code: int


class Terminated(NamedTuple):
    """This command is to end."""

    number: int


_Event = ToTerminal | RunnerLost | ProgramExited | Terminated


class AgentTerminal:
    """Runs the program that the runner names, and ends it when the runner says so.

    Args:
        home: The home directory of the runner.
        client: For what is shown while the conversation is driven from elsewhere.
        arguments: The person's own arguments for the program.
    """

    def __init__(self, home: Path, client: AsyncClient, arguments: tuple[str, ...]) -> None:
        self._home = home
        self._arguments = arguments
        self._news = SessionNews(client)
        self._writer: asyncio.StreamWriter | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._events: asyncio.Queue[_Event] = asyncio.Queue()
        self._is_terminated = asyncio.Event()
        self._is_ending = False
        """The program was told to end: its end is not the end of this command."""
        self._is_wanted = True
        """The person waits for the conversation."""
        self._reason = ""
        """Why the conversation goes on without this terminal; "" if it has not been here yet."""
        self._told: tuple[str, bool] | None = None
        """What the person was told last about the two."""
        self._deaf_until = 0.0

    async def wait_for_runner(self) -> None:
        """Raise Unavailable if no runner accepts terminals on this home directory."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._address()
                return
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    async def run(self, session_id: str) -> int:
        """Run until the person leaves. Returns the exit code."""
        loop = asyncio.get_running_loop()
        original = termios.tcgetattr(sys.stdin.fileno())
        # A program in raw mode gets these keys itself. Handlers, unlike ignored signals, are not inherited.
        for number in (signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._handle_key_signal, number)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._terminate, number)
        loop.add_signal_handler(signal.SIGCHLD, self._follow_suspension)
        try:
            if not await self._attach_within(_START_SECONDS, session_id, wants=True):
                raise Unavailable(f"the runner on {self._home} does not answer: restart `farsteer up`")
            return await self._serve(session_id, original)
        finally:
            if self._program is not None:
                await self._end_program(2.0)
                self._restore_screen(original, was_killed=True)
            await self._news.stop()
            if self._writer is not None:
                self._writer.close()
            _set_modes(original)

    # -- signals

    def _terminate(self, number: int) -> None:
        self._is_terminated.set()
        self._events.put_nowait(Terminated(number))

    def _handle_key_signal(self, number: int) -> None:
        if self._program is None:
            self._terminate(number)

    def _follow_suspension(self) -> None:
        """Suspend this command too if its program has suspended itself: the shell waits for both."""
        program = self._program
        with suppress(ChildProcessError):
            if program is not None and os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOHANG) is not None:
                os.kill(os.getpid(), signal.SIGSTOP)

    # -- the runner

    def _address(self) -> TerminalAddress:
        content = read_secret(self._home / ADDRESS_FILE)
        if content is None:
            raise Unavailable(f"no runner runs on {self._home}: start one with `farsteer up`")
        return decode(content, TerminalAddress)

    async def _attach(self, session_id: str, *, wants: bool) -> None:
        address = self._address()
        try:
            reader, self._writer = await asyncio.open_connection("127.0.0.1", address.port, limit=MAX_LINE)
        except OSError:
            raise Unavailable("the runner does not answer") from None
        self._send(
            Attach(
                secret=address.secret, session_id=session_id, arguments=self._arguments, environment={**os.environ},
                wants=wants,
            )
        )  # fmt: skip
        self._spawn(self._read(reader))

    async def _attach_within(self, seconds: float, session_id: str, *, wants: bool) -> bool:
        """Attach to a runner that starts. Returns False if it does not in time, or this command is to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_terminated.is_set():
                    with suppress(Unavailable):
                        await self._attach(session_id, wants=wants)
                        return True
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._is_terminated.wait(), _RETRY_SECONDS)
        return False

    async def _attach_again(self, session_id: str) -> None:
        """Attach to a runner that restarts. Raises Unavailable if it does not come back in time."""
        _print("farsteer: the runner has ended; waiting for it to come back.")
        is_back = await self._attach_within(_RUNNER_SECONDS, session_id, wants=self._is_wanted)
        if not is_back and not self._is_terminated.is_set():
            raise Unavailable("the runner has ended; the session is kept")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError, ValueError):
            while line := await reader.readline():
                self._events.put_nowait(decode_with(_decoder, line))
        self._events.put_nowait(RunnerLost())

    def _send(self, message: FromTerminal) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(message) + b"\n")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the loop

    async def _serve(self, session_id: str, original: list[Any]) -> int:
        while True:
            event = await self._next_event(session_id)
            match event:
                case RunProgram(command=command):
                    await self._news.stop()
                    self._start_program(command)
                case HandedOver(reason=reason):
                    self._reason, self._is_wanted = reason, False
                    self._news.start(session_id)
                case EndProgram(grace=grace):
                    await self._end_program(grace)
                case Refused(error=error):
                    raise error.to_error()
                case RunnerLost():
                    self._writer = None
                    if self._program is None:
                        await self._attach_again(session_id)
                case ProgramExited(code=code):
                    if not self._is_ending and not (self._writer is None and code == -signal.SIGKILL):
                        return _exit_code(code)
                    self._restore_screen(original, was_killed=code < 0)
                    if self._writer is None:
                        # A runner that restarts has killed what an earlier one had started.
                        self._is_wanted = not self._is_ending
                        await self._attach_again(session_id)
                case Terminated(number=number):
                    return 128 + number
                case None:
                    return SUCCESS

    async def _next_event(self, session_id: str) -> _Event | None:
        """Return what happens next, None if the person leaves. What they can do is shown while no program runs."""
        if self._program is not None or not self._events.empty():
            return await self._events.get()
        if self._is_wanted:
            with suppress(TimeoutError):
                return await asyncio.wait_for(self._events.get(), _QUIET_SECONDS)
        return await self._wait_for_person(session_id)

    def _restore_screen(self, original: list[Any], *, was_killed: bool) -> None:
        _write(_RESET + (_LAST_LINE if was_killed else _CLEAN_LINE))
        _set_modes(original)
        with suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        self._deaf_until = time.monotonic() + _DEAF_SECONDS

    # -- the program

    def _start_program(self, command: TerminalCommand) -> None:
        self._is_ending, self._is_wanted, self._told = False, True, None
        try:
            # In this process group, so that the shell's job control has both.
            self._program = subprocess.Popen(
                command.argv, env=command.environment, cwd=command.directory, close_fds=True
            )
        except OSError as error:
            self._send(ProgramFailed(f"{command.argv[0]}: {error.strerror}"))
            return
        # The next one goes on with the conversation and must not say it again.
        self._arguments = without_prompt(self._arguments)
        self._send(ProgramStarted(self._program.pid))
        self._spawn(self._wait_for_program(self._program))

    async def _wait_for_program(self, program: subprocess.Popen[bytes]) -> None:
        code = await asyncio.to_thread(program.wait)
        self._program = None
        self._send(ProgramEnded(code))
        self._events.put_nowait(ProgramExited(code))

    async def _end_program(self, grace: float) -> None:
        program = self._program
        if program is None:
            return
        self._is_ending = True
        program.terminate()
        # One that is suspended gets the signal when it goes on.
        program.send_signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(grace):
                await asyncio.to_thread(program.wait)
        except TimeoutError:
            program.kill()
            await asyncio.to_thread(program.wait)

    # -- while the conversation is driven from elsewhere

    async def _wait_for_person(self, session_id: str) -> _Event | None:
        """Show what happens until something is to be done. Returns None if the person leaves."""
        self._news.start(session_id)
        self._tell()
        while True:
            keys: asyncio.Queue[bytes] = asyncio.Queue()
            with raw_keys(sys.stdin, keys.put_nowait):
                while True:
                    happened = await self._first_of(keys)
                    if not isinstance(happened, bytes):
                        return happened
                    if happened == b"" or any(key in _LEAVE_KEYS for key in self._heard(happened)):
                        return None
                    if _SUSPEND_KEY in happened:
                        break
                    for key in self._heard(happened):
                        if key in _TAKE_KEYS:
                            self._take_back()
            os.kill(os.getpid(), signal.SIGTSTP)

    async def _first_of(self, keys: asyncio.Queue[bytes]) -> _Event | bytes:
        """Return the next event, or else the next keys. News are printed meanwhile."""
        said, typed, news = self._events.get(), keys.get(), self._news.lines.get()
        tasks = [asyncio.ensure_future(one) for one in (said, typed, news)]
        try:
            while True:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if tasks[2].done():
                    _print(str(tasks[2].result()))
                    tasks[2] = asyncio.ensure_future(self._news.lines.get())
                for task in tasks[:2]:
                    if task.done():
                        return task.result()  # pyright: ignore[reportReturnType]
        finally:
            for task in tasks:
                task.cancel()

    def _heard(self, keys: bytes) -> bytes:
        """Return the keys that were meant for this command."""
        return b"" if keys.startswith(b"\x1b") or time.monotonic() < self._deaf_until else keys

    def _take_back(self) -> None:
        self._send(TakeBack(interrupt=self._is_wanted))
        self._is_wanted = True
        self._tell()

    def _tell(self) -> None:
        told = (self._reason, self._is_wanted)
        if told == self._told:
            return
        if self._is_wanted:
            _print("farsteer: the conversation comes here when nothing else waits in this session.")
            _print("farsteer: Enter interrupts the turn that runs, q leaves it to the others.")
        else:
            _print(f"farsteer: this conversation goes on elsewhere ({self._reason}).")
            _print("farsteer: Enter takes it back, q leaves it to the others.")
        self._told = told


class SessionNews:
    """What happens in a session, as lines to print. It is kept from `start` on, until somebody reads it."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._task: asyncio.Task[None] | None = None
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def start(self, session_id: str) -> None:
        if self._task is None:
            self.lines = asyncio.Queue()
            self._task = asyncio.create_task(self._collect(session_id))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _collect(self, session_id: str) -> None:
        titles: dict[str, str] = {}
        is_told = False
        while True:
            try:
                async for update in Follower(self._client, session_id, 0).updates():
                    is_told = False
                    if not isinstance(update, Delta):
                        for line in entry_lines(update, titles):
                            self.lines.put_nowait(line.text)
                return
            except FarsteerError as error:
                if not is_told:
                    self.lines.put_nowait(f"farsteer: what happens cannot be shown: {error.message}")
                is_told = True
            await asyncio.sleep(_HUB_RETRY_SECONDS)


def _exit_code(code: int) -> int:
    """Return the exit code that a shell would show for a process."""
    return 128 - code if code < 0 else code


def _set_modes(modes: list[Any]) -> None:
    # The terminal may be gone.
    with suppress(termios.error):
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, modes)


def _print(text: str) -> None:
    """Print a line on a terminal that may be in raw mode."""
    _write(text.replace("\n", "\r\n") + "\r\n")


def _write(text: str) -> None:
    with suppress(OSError):
        sys.stdout.write(text)
        sys.stdout.flush()
