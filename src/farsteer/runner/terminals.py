"""Terminals of this machine that `farsteer run` attaches to sessions."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil

from farsteer.agents.base import TerminalCommand
from farsteer.agents.process import posix
from farsteer.agents.process.environment import LAUNCH_VARIABLE, is_private_variable
from farsteer.agents.terminal_arguments import without_prompt
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, FarsteerError, NotFound, Unauthorized
from farsteer.core.wire import WireStruct, decode_with, encode
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
from farsteer.storage.home import write_secret

if TYPE_CHECKING:
    from farsteer.runner.session.actor import SessionActor

_START_TIMEOUT = 20.0
_HELLO_TIMEOUT = 10.0
_END_MARGIN = 2.0
_FAILED_START_GRACE = 1.0
_KILL_SECONDS = 2.0
_logger = logging.getLogger(__name__)
_decoder = msgspec.json.Decoder[FromTerminal](FromTerminal)


class TerminalAddress(WireStruct):
    """The content of `ADDRESS_FILE`."""

    port: int
    secret: str


class TerminalConnection:
    """One terminal. It is the `Terminal` of the launches that run in it."""

    def __init__(self, attach: Attach, writer: asyncio.StreamWriter) -> None:
        self.wants_conversation = attach.wants
        self.arguments = attach.arguments
        self.environment = {
            name: value for name, value in attach.environment.items() if not is_private_variable(name)
        }
        self._writer = writer
        self._started: asyncio.Future[int] | None = None
        self._ended: asyncio.Future[int | None] | None = None
        self._program: tuple[int, str] | None = None
        """Process id and launch mark of the program that runs."""
        self.is_lost = False

    # -- Terminal

    async def run(self, command: TerminalCommand) -> int:
        if self.is_lost:
            raise AgentError("the terminal is gone", code=ErrorCode.AGENT_START_FAILED)
        loop = asyncio.get_running_loop()
        started, self._ended = loop.create_future(), loop.create_future()
        self._started = started
        self._send(RunProgram(command))
        mark = command.environment.get(LAUNCH_VARIABLE, "")
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                pid = await started
        except BaseException as error:
            # It may run nevertheless: the terminal has not said so yet, or was killed before it could.
            await self.end(_FAILED_START_GRACE)
            if mark:
                await asyncio.to_thread(posix.kill_marked, mark.__eq__)
            if isinstance(error, TimeoutError):
                message = "the terminal did not start the program"
                raise AgentError(message, code=ErrorCode.AGENT_START_FAILED) from None
            raise
        self._program = (pid, mark)
        # The next program goes on with the conversation and must not say it again.
        self.arguments = without_prompt(self.arguments)
        return pid

    async def wait(self) -> int | None:
        return None if self._ended is None else await asyncio.shield(self._ended)

    async def end(self, grace: float) -> None:
        if self._ended is None or self._ended.done():
            return
        self._send(EndProgram(grace))
        # The terminal kills it after the grace. One that does not answer may be stopped itself.
        await asyncio.wait((self._ended,), timeout=grace + _END_MARGIN)
        if not self._ended.done():
            await asyncio.to_thread(self._kill_program)
            _set(self._ended, None)

    # -- the session

    def hand_over(self, reason: str) -> None:
        """Tell the person that the conversation goes on elsewhere. The launch ends the program."""
        self._send(HandedOver(reason))

    def refuse(self, error: FarsteerError) -> None:
        self._send(Refused(error.record()))
        self._writer.close()

    def disconnect(self) -> None:
        """Let the terminal attach again: the session's actor ends."""
        self._writer.close()

    # -- the socket

    def handle(self, message: FromTerminal) -> None:
        match message:
            case ProgramStarted(pid=pid):
                _set(self._started, pid)
            case ProgramFailed(reason=reason):
                if self._started is not None and not self._started.done():
                    self._started.set_exception(AgentError(reason, code=ErrorCode.AGENT_START_FAILED))
                _set(self._ended, None)
            case ProgramEnded(exit_code=code):
                self._program = None
                _set(self._ended, code)
            case Attach() | TakeBack():
                pass

    async def lose(self) -> None:
        """The terminal is gone. Its program may have outlived it."""
        self.is_lost = True
        await asyncio.to_thread(self._kill_program)
        if self._started is not None and not self._started.done():
            error = AgentError("the terminal was closed", code=ErrorCode.AGENT_START_FAILED)
            self._started.set_exception(error)
        _set(self._ended, None)

    def _kill_program(self) -> None:
        if self._program is not None:
            pid, mark = self._program
            # Another process may have got the number since.
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                if posix.read_mark(pid) == mark:
                    process.kill()
                    posix.wait_gone([process], _KILL_SECONDS)
            self._program = None

    def _send(self, message: ToTerminal) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(message) + b"\n")


def _set(future: asyncio.Future[int] | asyncio.Future[int | None] | None, value: int | None) -> None:
    if future is not None and not future.done():
        future.set_result(value)  # pyright: ignore[reportArgumentType]


class TerminalServer:
    """Accepts terminals on a port of the loopback interface. The port and a secret are in the home directory."""

    def __init__(self, home: Path, find_actor: Callable[[str], SessionActor | None]) -> None:
        self._file = home / ADDRESS_FILE
        self._find_actor = find_actor
        self._secret = secrets.token_urlsafe(32)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_LINE)
        port = self._server.sockets[0].getsockname()[1]
        write_secret(self._file, encode(TerminalAddress(port, self._secret)))

    async def close(self) -> None:
        if self._server is not None:
            self._file.unlink(missing_ok=True)
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            attach = await self._read_attach(reader)
            actor = self._find_actor(attach.session_id)
            if actor is None:
                raise NotFound("this machine has no such session")
        except (TimeoutError, FarsteerError, OSError, ValueError) as error:
            if isinstance(error, FarsteerError):
                writer.write(encode(Refused(error.record())) + b"\n")
            writer.close()
            return
        terminal = TerminalConnection(attach, writer)
        actor.attach_terminal(terminal)
        try:
            while line := await reader.readline():
                message = decode_with(_decoder, line)
                if isinstance(message, TakeBack):
                    actor.take_back(terminal, interrupt=message.interrupt)
                else:
                    terminal.handle(message)
        except (OSError, ValueError, msgspec.DecodeError) as error:
            _logger.warning("the connection to a terminal ended: %s", error)
        finally:
            await terminal.lose()
            actor.lose_terminal(terminal)
            writer.close()

    async def _read_attach(self, reader: asyncio.StreamReader) -> Attach:
        async with asyncio.timeout(_HELLO_TIMEOUT):
            line = await reader.readline()
        try:
            message = decode_with(_decoder, line)
        except msgspec.DecodeError as error:
            raise BadRequest(f"not a message of a terminal: {error}") from None
        if not isinstance(message, Attach):
            raise BadRequest("the first message must be `attach`")
        if not hmac.compare_digest(message.secret.encode(), self._secret.encode()):
            raise Unauthorized("the secret is wrong")
        return message
