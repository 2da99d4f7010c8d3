"""A client of Droid's `stream-jsonrpc` protocol, written from docs/droid.md."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from farsteer.faces.droid.server import Server
from farsteer.faces.droid.sessions import ServerOptions
from farsteer.faces.hub_connection import OpenHub
from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter

SECONDS = 30.0
_LIMIT = 256 * 1024 * 1024

Line = dict[str, Any]
FORMATS = ("--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc")
FACE = (sys.executable, "-m", "farsteer", "exec", *FORMATS)


def request(id: str, method: str, params: Line | None = None) -> Line:
    return {
        "jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "type": "request", "id": id, "method": f"droid.{method}",
        "params": params or {},
    }  # fmt: skip


class DroidClient:
    def __init__(self, heard: asyncio.StreamReader, said: asyncio.StreamWriter) -> None:
        self._heard = heard
        self._said = said
        self.lines: list[Line] = []
        """Everything that was heard."""
        self._ids = 0
        self._read = 0

    # -- saying

    async def write(self, *lines: Line | bytes) -> None:
        for line in lines:
            data = line if isinstance(line, bytes) else json.dumps(line).encode()
            self._said.write(data + b"\n")
        await self._said.drain()

    def write_raw(self, data: bytes) -> None:
        self._said.write(data)

    async def send(self, method: str, params: Line | None = None) -> str:
        self._ids += 1
        await self.write(request(str(self._ids), method, params))
        return str(self._ids)

    async def call(self, method: str, params: Line | None = None) -> Line:
        """Send a request and return the response. An error without an id counts as the response."""
        id = await self.send(method, params)
        return await self.until(lambda line: line["type"] == "response" and line["id"] in (id, None))

    async def ask(self, method: str, params: Line | None = None) -> Line:
        """Send a request and return its result."""
        answer = await self.call(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def initialize(self, directory: Path | str, **params: Any) -> Line:
        return await self.ask("initialize_session", {"machineId": "m1", "cwd": str(directory), **params})

    async def reply(self, asked: Line, result: Any) -> None:
        answer = {
            "jsonrpc": "2.0",
            "factoryApiVersion": "1.0.0",
            "type": "response",
            "id": asked["id"],
            "result": result,
        }
        await self.write(answer)

    async def select(self, asked: Line, option: str, **more: Any) -> None:
        await self.reply(asked, {"selectedOption": option, **more})

    def close(self) -> None:
        self._said.close()

    # -- hearing

    async def next(self) -> Line:
        """Return the next unread line."""
        if self._read == len(self.lines):
            async with asyncio.timeout(SECONDS):
                line = await self._heard.readline()
            if not line:
                raise EOFError(f"no more lines after {self.lines[-3:]}")
            self.lines.append(json.loads(line))
        self._read += 1
        return self.lines[self._read - 1]

    async def until(self, condition: Callable[[Line], bool]) -> Line:
        while not condition(line := await self.next()):
            pass
        return line

    async def until_note(self, kind: str, **fields: Any) -> Line:
        """Return the payload of the next notification of this kind with these fields."""

        def meant(line: Line) -> bool:
            note = note_of(line)
            return note.get("type") == kind and all(note.get(key) == value for key, value in fields.items())

        return note_of(await self.until(meant))

    async def until_idle(self) -> list[Line]:
        """Return the payloads up to and including the next idle state."""
        begun = self._read
        await self.until_note("droid_working_state_changed", newState="idle")
        return [note for line in self.lines[begun : self._read] if (note := note_of(line))]

    async def until_request(self, method: str) -> Line:
        return await self.until(
            lambda line: line["type"] == "request" and line["method"] == f"droid.{method}"
        )

    async def turn(self, text: str, **more: Any) -> list[Line]:
        await self.ask("add_user_message", {"text": text, **more})
        return await self.until_idle()

    async def rest(self) -> list[Line]:
        """Return everything that arrives until the other side closes."""
        begun = self._read
        try:
            while True:
                await self.next()
        except EOFError:
            return self.lines[begun:]


class DroidProcess(DroidClient):
    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(process.stdout, process.stdin)
        self.process = process

    def hang_up(self) -> None:
        """Close our end of the output."""
        transport = self.process._transport.get_pipe_transport(1)  # pyright: ignore[reportAttributeAccessIssue]
        transport.close()

    async def ended(self) -> int:
        """Read the remaining output into `lines` and return the exit code."""
        await self.rest()
        async with asyncio.timeout(SECONDS):
            return await self.process.wait()


def note_of(line: Line) -> Line:
    return line.get("params", {}).get("notification", {}) if line["type"] == "notification" else {}


def kinds(notes: Sequence[Line]) -> list[str]:
    """Return the kinds of the notifications, with states by name and repeated deltas once."""
    named = [note["newState"] if "newState" in note else note["type"] for note in notes]
    return [kind for index, kind in enumerate(named) if index == 0 or kind != named[index - 1]]


def text_of(notes: Sequence[Line]) -> str:
    return "".join(note["textDelta"] for note in notes if note["type"] == "assistant_text_delta")


def of(notes: Sequence[Line], kind: str) -> list[Line]:
    return [note for note in notes if note["type"] == kind]


@asynccontextmanager
async def droid(
    *arguments: str, command: Sequence[str] = FACE, cwd: Path | str | None = None, quiet: bool = True
) -> AsyncIterator[DroidProcess]:
    """Run a process and connect to it. It is ended when the block is left."""
    process = await asyncio.create_subprocess_exec(
        *command, *arguments, stdin=PIPE, stdout=PIPE, stderr=DEVNULL if quiet else PIPE, limit=_LIMIT, cwd=cwd,
        env=dict(os.environ),
    )  # fmt: skip
    client = DroidProcess(process)
    try:
        yield client
        client.close()
        async with asyncio.timeout(SECONDS):
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@asynccontextmanager
async def droid_here(hub: OpenHub, options: ServerOptions) -> AsyncIterator[DroidClient]:
    """Run the face in this process, without starting an interpreter."""
    (our_end, its_out), (its_in, our_out) = os.pipe(), os.pipe()
    loop, heard = asyncio.get_running_loop(), asyncio.StreamReader(_LIMIT)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(heard), os.fdopen(our_end, "rb", 0)
    )
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(our_out, "wb", 0)
    )
    said = asyncio.StreamWriter(transport, protocol, None, loop)
    serving = asyncio.create_task(Server(options, StdinReader(its_in), StdoutWriter(its_out), hub).run())
    serving.add_done_callback(lambda _: os.close(its_out))
    client = DroidClient(heard, said)
    try:
        yield client
        client.close()
        async with asyncio.timeout(SECONDS):
            await serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        reading.close()
        transport.close()
        os.close(its_in)
