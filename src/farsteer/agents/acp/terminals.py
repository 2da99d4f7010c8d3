"""Commands that the agent runs through us, in the directories of its session."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from farsteer.agents.process.environment import RUN_AS_VARIABLE, is_private_variable
from farsteer.agents.process.user import AgentUser
from farsteer.core.errors import FarsteerError
from farsteer.core.ids import new_id
from farsteer.jsonrpc.errors import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError

MAX_TERMINALS = 32
_OUTPUT_BYTES, _MAX_OUTPUT_BYTES = 1024 * 1024, 8 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_CLOSE_SECONDS = 5.0


class Terminal:
    """A running or ended command. Its output is kept from the end, up to a limit."""

    def __init__(self, process: asyncio.subprocess.Process, limit: int) -> None:
        self.truncated = False
        self._process = process
        self._limit = limit
        self._output = bytearray()
        self._ended = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        assert self._process.stdout is not None
        while chunk := await self._process.stdout.read(_CHUNK_BYTES):
            self._output += chunk
            excess = len(self._output) - self._limit
            if excess > 0:
                self.truncated = True
                # The first character that is kept must be a whole one.
                while excess < len(self._output) and self._output[excess] & 0xC0 == 0x80:
                    excess += 1
                del self._output[:excess]
        await self._process.wait()

    @property
    def output(self) -> str:
        return self._output.decode(errors="replace")

    @property
    def exit_status(self) -> dict[str, object] | None:
        """How the command ended, as the protocol says it, or None while it runs."""
        code = self._process.returncode
        if code is None or not self._ended.done():
            return None
        if code >= 0:
            return {"exitCode": code, "signal": None}
        return {
            "exitCode": None,
            "signal": signal.Signals(-code).name if -code in set(signal.Signals) else str(-code),
        }

    async def wait(self) -> dict[str, object]:
        await asyncio.shield(self._ended)
        return self.exit_status or {"exitCode": None, "signal": None}

    def kill(self) -> None:
        """End the command and what it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


class Terminals:
    """The commands of one launch.

    Args:
        environment: The environment of the agent, which its commands have too.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._known: dict[str, Terminal] = {}

    async def create(
        self, argv: Sequence[str], directory: str, added: Mapping[str, str], limit: int | None
    ) -> str:
        """Start a command and return the id of its terminal. Raises RpcError."""
        if len(self._known) >= MAX_TERMINALS:
            raise RpcError(INTERNAL_ERROR, f"there are {MAX_TERMINALS} terminals already: release some")
        own = {name: value for name, value in added.items() if not is_private_variable(name)}
        variables = {**self._environment, **own}
        user = variables.pop(RUN_AS_VARIABLE, None)
        try:
            if user is not None:
                argv = AgentUser.find(user).command(argv)
            process = await asyncio.create_subprocess_exec(
                *argv, cwd=directory, env=variables, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError, FarsteerError) as error:
            raise RpcError(INTERNAL_ERROR, f"cannot run {argv[0][:200]}: {error}") from None
        terminal_id = new_id()
        kept = _OUTPUT_BYTES if limit is None else min(max(limit, 0), _MAX_OUTPUT_BYTES)
        self._known[terminal_id] = Terminal(process, kept)
        return terminal_id

    def find(self, terminal_id: str) -> Terminal:
        """Return a terminal. Raises RpcError if there is none with this id."""
        terminal = self._known.get(terminal_id)
        if terminal is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"no terminal {terminal_id[:100]!r}")
        return terminal

    def output_of(self, terminal_id: str) -> str:
        """Return what a terminal has shown, "" if there is none with this id."""
        terminal = self._known.get(terminal_id)
        return "" if terminal is None else terminal.output

    def release(self, terminal_id: str) -> None:
        """End the command and forget the terminal."""
        self.find(terminal_id).kill()
        del self._known[terminal_id]

    async def close(self) -> None:
        """End every command."""
        terminals = [*self._known.values()]
        for terminal in terminals:
            terminal.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                for terminal in terminals:
                    await terminal.wait()


def command_argv(command: str, args: Sequence[str], path: str | None) -> list[str]:
    """Return what to run. Some agents send a whole command line in the place of the program. Raises RpcError."""
    if not command or "\0" in command or any("\0" in one for one in args):
        raise RpcError(INVALID_PARAMS, "not a command")
    if args or not any(letter.isspace() for letter in command) or shutil.which(command, path=path):
        return [command, *args]
    return ["/bin/sh", "-c", command]
