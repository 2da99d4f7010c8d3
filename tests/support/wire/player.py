"""Plays recorded exchanges to an adapter, in the place of its processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from farsteer.agents.process import OnExit, OnLines, ProcessExit
from farsteer.core.errors import AgentError, ErrorCode
from tests.support.wire.names import UUID, StableNames
from tests.support.wire.recording import Exchange, Json

_NO_PROCESS = 2**22 + 1
"""A pid that no process can have."""

_PATIENCE = 100
"""How many rounds of the event loop an expected line may come after another one."""


class Mismatch(AssertionError):
    """The adapter wrote another line than the recorded one."""


class Player:
    """Gives each process that is started the next exchange.

    Our own ids differ with each run. Where the adapter writes one that the recording has under another name, both are
    taken for the same from then on.
    """

    def __init__(
        self, exchanges: Sequence[Exchange], names: StableNames, on_write: Callable[[Json], None]
    ) -> None:
        self._exchanges = [*exchanges]
        self.names = names
        self.on_write = on_write
        self.played: list[Any] = []
        """Every message of the agent that was given to the adapter, as it was recorded."""
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ours: dict[str, str] = {}
        """Our id by the recorded one."""
        self._tried: dict[str, str] = {}

    def start(
        self, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str], on_lines: OnLines,
        on_exit: OnExit, **_: Any,
    ) -> PlayedProcess:  # fmt: skip
        """The stand-in of `AgentProcess.start`."""
        if not self._exchanges:
            raise AssertionError("the adapter starts a process that was not recorded")
        exchange = self._exchanges.pop(0)
        command = [exchange[0]["start"][0], *argv[1:]]
        self.check({"start": self.names.places(command)}, exchange[0])
        return PlayedProcess(self, exchange[1:], on_lines, on_exit)

    def check_finished(self) -> None:
        assert not self._exchanges, "a recorded process was not started"

    def check(self, written: Json, recorded: Json) -> None:
        if not self.matches(written, recorded):
            raise Mismatch(f"recorded:\n{json.dumps(recorded)}\nwritten:\n{json.dumps(written)}")

    def matches(self, written: Json, recorded: Json) -> bool:
        """Whether both are the same line. Then their ids are the same from now on."""
        self._tried = {**self._ours}
        if not self._same(written, recorded):
            return False
        self._ours = self._tried
        return True

    def _same(self, written: Any, recorded: Any) -> bool:
        if isinstance(written, str) and isinstance(recorded, str):
            return self._same_text(written, recorded)
        if isinstance(written, dict) and isinstance(recorded, dict):
            ours, theirs = cast("Json", written), cast("Json", recorded)
            return ours.keys() == theirs.keys() and all(self._same(ours[key], theirs[key]) for key in ours)
        if isinstance(written, list) and isinstance(recorded, list):
            mine, other = cast("list[Any]", written), cast("list[Any]", recorded)
            return len(mine) == len(other) and all(map(self._same, mine, other))
        return written == recorded

    def _same_text(self, written: str, recorded: str) -> bool:
        ours, theirs = UUID.findall(written), UUID.findall(recorded)
        if UUID.split(written) != UUID.split(recorded):
            return False
        return all(self._tried.setdefault(name, our) == our for our, name in zip(ours, theirs, strict=True))

    def spoken(self, message: Any) -> bytes:
        """Return the line of a recorded message, with our ids."""
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
        return UUID.sub(lambda found: self._ours.get(found[0], found[0]), text).encode()

    def state(self) -> str:
        """Return the last message that was given to the adapter."""
        return json.dumps(self.played[-1:])[:500]

    def fail(self, error: Exception) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)


class PlayedProcess:
    """The stand-in of an `AgentProcess`."""

    pid = _NO_PROCESS
    stderr = ""

    def __init__(self, player: Player, entries: Exchange, on_lines: OnLines, on_exit: OnExit) -> None:
        self._player = player
        self._on_lines = on_lines
        self._on_exit = on_exit
        self._written: list[Json] = []
        self._asked: str | None = None
        self._stopped = asyncio.Event()
        self._ended = asyncio.Event()
        self._playing = asyncio.get_running_loop().create_task(self._play(entries))

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    async def write(self, data: bytes, timeout: float = 0.0) -> None:
        if self._asked is not None or not self.running:
            raise AgentError("the process has ended", code=ErrorCode.AGENT_DIED)
        message = self._player.names.places(json.loads(data))
        self._player.on_write(message)
        self._written.append(message)

    @contextmanager
    def handing_over(self) -> Generator[None]:
        yield

    async def stop(self, grace: float = 0.0) -> None:
        self.kill("stopped")
        await self._ended.wait()

    def kill(self, reason: str) -> None:
        self._asked = self._asked or reason
        self._stopped.set()

    async def wait_reaped(self) -> None:
        await self._ended.wait()

    async def wait(self) -> None:
        await asyncio.shield(self._playing)

    async def _play(self, entries: Exchange) -> None:
        try:
            for entry in entries:
                if "in" in entry:
                    await self._expect(entry)
                elif "out" in entry:
                    self._player.played.append(entry["out"])
                    await self._on_lines([self._player.spoken(entry["out"])])
                    await asyncio.sleep(0)
                else:
                    await self._exit(entry["exit"])
        except Exception as error:
            self._player.fail(error)

    async def _expect(self, entry: Json) -> None:
        """Wait for a line. What the adapter and the scenario write at the same time may come in another order."""
        rounds = 0
        while rounds < _PATIENCE:
            for index, message in enumerate(self._written):
                if self._player.matches({"in": message}, entry):
                    del self._written[index]
                    return
            rounds += bool(self._written)
            await asyncio.sleep(0)
        self._player.check({"in": self._written[0]}, entry)

    async def _exit(self, how: Json) -> None:
        if how["asked"] is not None:
            await self._stopped.wait()
        if self._written:
            raise Mismatch(f"written, but not recorded: {json.dumps(self._written[0])}")
        self._ended.set()
        await self._on_exit(ProcessExit(how["code"], "", how["asked"]))
