"""An ACP client for tests. It records everything it receives and answers requests as the test says."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from farsteer.core.lines import Line, LineSplitter
from farsteer.faces.acp.server import AcpOptions, serve
from farsteer.faces.hub_connection import OpenHub
from farsteer.jsonrpc.errors import RpcError, unknown_method
from farsteer.jsonrpc.peer import Peer, Transport
from tests.support.acp_schema import Wire

SECONDS = 30.0
FORMS = {"elicitation": {"form": {}}}
FARSTEER_ACP = (sys.executable, "-m", "farsteer", "acp")

Answer = Callable[[str, dict[str, Any]], Awaitable[Any]]


async def nobody(method: str, params: dict[str, Any]) -> Any:
    """Handle no request."""
    raise unknown_method(method)


async def forever(method: str, params: dict[str, Any]) -> Any:
    """Never answer."""
    await asyncio.Event().wait()


def choosing(*kinds: str) -> Answer:
    """Return a handler that selects the first option of one of these kinds."""

    async def answer(method: str, params: dict[str, Any]) -> Any:
        for option in params["options"]:
            if option["kind"] in kinds:
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        raise AssertionError(f"no {kinds} among {params['options']}")

    return answer


class Editor:
    """A client over any transport. Every message is checked against the official schema."""

    def __init__(self, lines: Transport, answer: Answer = nobody, *, strict: bool = True) -> None:
        self.answer = answer
        self.wire = Wire()
        self.updates: list[tuple[str, dict[str, Any]]] = []
        """Session and update, as they came."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.cancelled: list[Any] = []
        """What it was asked and no longer has to answer."""
        self.log: list[str] = []
        """Answers and updates by name, in the order of the wire."""
        self._news = asyncio.Event()
        self._tap = _Tap(lines, self, strict=strict)
        self.peer = Peer(self._tap, self)

    # -- what it is told and asked

    async def handle_request(self, method: str, params: Any) -> Any:
        self.asked.append((method, params))
        self._news.set()
        try:
            return await self.answer(method, params)
        except asyncio.CancelledError:
            self.cancelled.append(params)
            self._news.set()
            raise

    async def handle_notification(self, method: str, params: Any) -> None:
        assert method == "session/update", method
        self.updates.append((params["sessionId"], params["update"]))
        self._news.set()

    async def until(self, condition: Callable[[], Any]) -> Any:
        async with asyncio.timeout(SECONDS):
            while not (found := condition()):
                self._news.clear()
                await self._news.wait()
            return found

    async def until_update(self, kind: str, **fields: Any) -> dict[str, Any]:
        return await self.until(lambda: next(iter(self.told(kind, **fields)), None))

    async def until_asked(self, count: int = 1) -> list[dict[str, Any]]:
        await self.until(lambda: len(self.asked) >= count)
        return [params for _, params in self.asked]

    def told(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return [
            update
            for _, update in self.updates
            if update["sessionUpdate"] == kind and all(update.get(key) == fields[key] for key in fields)
        ]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.told(kind))

    def forget(self) -> None:
        """Forget what was received so far."""
        self.updates.clear()
        self.log.clear()

    # -- what it says

    async def call(self, method: str, **params: Any) -> Any:
        async with asyncio.timeout(SECONDS):
            return await self.peer.request(method, params, session_id=params.get("sessionId"))

    async def refused(self, method: str, **params: Any) -> RpcError:
        try:
            result = await self.call(method, **params)
        except RpcError as error:
            return error
        raise AssertionError(f"{method} was not refused: {result}")

    async def initialize(self, **capabilities: Any) -> dict[str, Any]:
        client = {"name": "test", "version": "1"}
        return await self.call(
            "initialize", protocolVersion=1, clientCapabilities=capabilities, clientInfo=client
        )

    async def new(self, directory: str, **more: Any) -> dict[str, Any]:
        return await self.call("session/new", **{"cwd": directory, "mcpServers": [], **more})

    async def load(self, session: str, directory: str = "/", **more: Any) -> dict[str, Any]:
        return await self.call(
            "session/load", **{"sessionId": session, "cwd": directory, "mcpServers": [], **more}
        )

    async def prompt(self, session: str, text: str | list[dict[str, Any]]) -> str:
        blocks = [{"type": "text", "text": text}] if isinstance(text, str) else text
        return (await self.call("session/prompt", sessionId=session, prompt=blocks))["stopReason"]

    def start(self, session: str, text: str) -> asyncio.Task[str]:
        return asyncio.create_task(self.prompt(session, text))

    async def configure(self, session: str, option: str, value: str) -> dict[str, str]:
        """Set an option and return the values of all options."""
        result = await self.call("session/set_config_option", sessionId=session, configId=option, value=value)
        return {one["id"]: one["currentValue"] for one in result["configOptions"]}

    def cancel(self, session: str) -> None:
        self.peer.notify("session/cancel", {"sessionId": session})


class _Tap:
    """A transport that checks every message."""

    def __init__(self, lines: Transport, editor: Editor, *, strict: bool) -> None:
        self._lines = lines
        self._editor = editor
        self._strict = strict

    async def batches(self) -> AsyncIterator[list[Line]]:
        async for batch in self._lines.batches():
            for line in batch:
                assert isinstance(line, bytes)
                message = json.loads(line)
                self._editor.wire.passes(message, from_client=False)
                self._editor.log.append(_name(message))
            yield batch

    async def write(self, data: bytes) -> None:
        for line in data.splitlines():
            self._editor.wire.passes(json.loads(line), from_client=True, strict=self._strict)
        await self._lines.write(data)


def _name(message: dict[str, Any]) -> str:
    if "method" not in message:
        return f"answer {message['id']}"
    if message["method"] == "session/update":
        return message["params"]["update"]["sessionUpdate"]
    return message["method"]


class Road:
    """One end of an in-memory connection."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.other: Road = self

    @classmethod
    def pair(cls) -> tuple[Road, Road]:
        one, other = cls(), cls()
        one.other, other.other = other, one
        return one, other

    async def batches(self) -> AsyncIterator[list[Line]]:
        while (data := await self.incoming.get()) is not None:
            yield list(data.splitlines())

    async def write(self, data: bytes) -> None:
        self.other.incoming.put_nowait(data)

    def close(self) -> None:
        """Close our end."""
        self.other.incoming.put_nowait(None)


@asynccontextmanager
async def editor_here(
    hub: OpenHub, options: AcpOptions | None = None, answer: Answer = nobody, *, strict: bool = True
) -> AsyncIterator[Editor]:
    """Run the face in this process. At the end every request must have exactly one answer."""
    ours, its = Road.pair()
    serving = asyncio.create_task(serve(its, options or AcpOptions(agent="demo"), hub))
    editor = Editor(ours, answer, strict=strict)
    running = asyncio.create_task(editor.peer.run())
    try:
        yield editor
    finally:
        ours.close()
        async with asyncio.timeout(SECONDS):
            await serving
            its.close()
            await running
    assert not {key for key in editor.wire.open if key[0]}, "a request was not answered"


class Pipes:
    """A child process as a transport."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def batches(self) -> AsyncIterator[list[Line]]:
        splitter = LineSplitter()
        while chunk := await self._reader.read(256 * 1024):
            if lines := splitter.feed(chunk):
                yield lines

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


class EditorProcess(Editor):
    def __init__(self, process: asyncio.subprocess.Process, answer: Answer) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.road = Pipes(process.stdout, process.stdin)
        super().__init__(self.road, answer)


@asynccontextmanager
async def editor(
    *arguments: str, command: Sequence[str] = FARSTEER_ACP, answer: Answer = nobody, cwd: Path | None = None
) -> AsyncIterator[EditorProcess]:
    """Start `farsteer acp` as an editor does. Every line of its stdout must be a protocol message."""
    process = await asyncio.create_subprocess_exec(
        *command, *arguments, stdin=PIPE, stdout=PIPE, cwd=cwd, env=dict(os.environ), start_new_session=True
    )
    client = EditorProcess(process, answer)
    running = asyncio.create_task(client.peer.run())
    try:
        yield client
        client.road.close()
        async with asyncio.timeout(SECONDS):
            await running
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
