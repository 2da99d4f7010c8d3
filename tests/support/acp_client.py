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

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from farsteer.core.lines import Line, LineSplitter
from farsteer.faces.acp.server import AcpOptions, serve
from farsteer.faces.hub_connection import OpenHub
from farsteer.jsonrpc.errors import RpcError, unknown_method
from farsteer.jsonrpc.peer import Peer, Transport
from tests.support.acp_schema import WireChecker

SECONDS = 30.0
FORMS = {"elicitation": {"form": {}}}
FARSTEER_ACP = (sys.executable, "-m", "farsteer", "acp")

RequestHandler = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Answers the requests of the agent: gets the method and its parameters."""


async def unsupported(method: str, params: dict[str, Any]) -> Any:
    """Handle no request."""
    raise unknown_method(method)


async def never_answer(method: str, params: dict[str, Any]) -> Any:
    """Never answer."""
    await asyncio.Event().wait()


def choose_option(*kinds: str) -> RequestHandler:
    """Return a handler that selects the first option of one of these kinds."""

    async def answer(method: str, params: dict[str, Any]) -> Any:
        for option in params["options"]:
            if option["kind"] in kinds:
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        raise AssertionError(f"no {kinds} among {params['options']}")

    return answer


class WebSocketTransport:
    """The messages of an editor over a websocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def batches(self) -> AsyncIterator[list[Line]]:
        try:
            async for frame in self._socket:
                yield [frame.encode() if isinstance(frame, str) else frame]
        except ConnectionClosed:
            return

    async def write(self, data: bytes) -> None:
        for line in data.splitlines():
            await self._socket.send(line.decode())


class Editor:
    """A client over any transport. Every message is checked against the official schema."""

    def __init__(
        self, transport: Transport, answer: RequestHandler = unsupported, *, strict: bool = True
    ) -> None:
        self.answer = answer
        self.wire = WireChecker()
        self.updates: list[tuple[str, dict[str, Any]]] = []
        """Session id and update."""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.cancelled_requests: list[Any] = []
        """Parameters of the requests that the agent has cancelled."""
        self.log: list[str] = []
        """What was received, in order: `answer ID`, the type of an update, or the method of a request."""
        self._changed = asyncio.Event()
        self.peer = Peer(_CheckedTransport(transport, self, strict=strict), self)
        self.transport = transport

    # -- receiving

    async def handle_request(self, method: str, params: Any) -> Any:
        self.requests.append((method, params))
        self._changed.set()
        try:
            return await self.answer(method, params)
        except asyncio.CancelledError:
            self.cancelled_requests.append(params)
            self._changed.set()
            raise

    async def handle_notification(self, method: str, params: Any) -> None:
        assert method == "session/update", method
        self.updates.append((params["sessionId"], params["update"]))
        self._changed.set()

    async def wait_until(self, condition: Callable[[], Any]) -> Any:
        async with asyncio.timeout(SECONDS):
            while not (found := condition()):
                self._changed.clear()
                await self._changed.wait()
            return found

    async def wait_for_update(self, kind: str, **fields: Any) -> dict[str, Any]:
        return await self.wait_until(lambda: next(iter(self.updates_of(kind, **fields)), None))

    async def wait_for_requests(self, count: int = 1) -> list[dict[str, Any]]:
        await self.wait_until(lambda: len(self.requests) >= count)
        return [params for _, params in self.requests]

    def updates_of(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return [
            update
            for _, update in self.updates
            if update["sessionUpdate"] == kind and all(update.get(key) == fields[key] for key in fields)
        ]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.updates_of(kind))

    def clear(self) -> None:
        """Forget what was received so far."""
        self.updates.clear()
        self.log.clear()

    # -- sending

    async def call(self, method: str, **params: Any) -> Any:
        async with asyncio.timeout(SECONDS):
            return await self.peer.request(method, params, session_id=params.get("sessionId"))

    async def expect_error(self, method: str, **params: Any) -> RpcError:
        try:
            result = await self.call(method, **params)
        except RpcError as error:
            return error
        raise AssertionError(f"{method} succeeded: {result}")

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

    def start_prompt(self, session: str, text: str) -> asyncio.Task[str]:
        return asyncio.create_task(self.prompt(session, text))

    async def configure(self, session: str, option: str, value: str) -> dict[str, str]:
        """Set an option and return the values of all options."""
        result = await self.call("session/set_config_option", sessionId=session, configId=option, value=value)
        return {one["id"]: one["currentValue"] for one in result["configOptions"]}

    def cancel(self, session: str) -> None:
        self.peer.notify("session/cancel", {"sessionId": session})


class _CheckedTransport:
    """A transport that checks every message."""

    def __init__(self, transport: Transport, editor: Editor, *, strict: bool) -> None:
        self._transport = transport
        self._editor = editor
        self._strict = strict

    async def batches(self) -> AsyncIterator[list[Line]]:
        async for batch in self._transport.batches():
            for line in batch:
                assert isinstance(line, bytes)
                message = json.loads(line)
                self._editor.wire.check_message(message, from_client=False)
                self._editor.log.append(_name(message))
            yield batch

    async def write(self, data: bytes) -> None:
        for line in data.splitlines():
            self._editor.wire.check_message(json.loads(line), from_client=True, strict=self._strict)
        await self._transport.write(data)


def _name(message: dict[str, Any]) -> str:
    if "method" not in message:
        return f"answer {message['id']}"
    if message["method"] == "session/update":
        return message["params"]["update"]["sessionUpdate"]
    return message["method"]


class MemoryTransport:
    """One end of an in-memory connection."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.other: MemoryTransport = self

    @classmethod
    def pair(cls) -> tuple[MemoryTransport, MemoryTransport]:
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
async def in_process_editor(
    hub: OpenHub,
    options: AcpOptions | None = None,
    answer: RequestHandler = unsupported,
    *,
    strict: bool = True,
) -> AsyncIterator[Editor]:
    """Run the face in this process. At the end every request must have exactly one answer."""
    ours, theirs = MemoryTransport.pair()
    serving = asyncio.create_task(serve(theirs, options or AcpOptions(agent="demo"), hub))
    editor = Editor(ours, answer, strict=strict)
    running = asyncio.create_task(editor.peer.run())
    try:
        yield editor
    finally:
        ours.close()
        async with asyncio.timeout(SECONDS):
            await serving
            theirs.close()
            await running
    assert not {key for key in editor.wire.open_requests if key[0]}, "a request was not answered"


class ProcessTransport:
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
    def __init__(self, process: asyncio.subprocess.Process, answer: RequestHandler) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._pipes = ProcessTransport(process.stdout, process.stdin)
        super().__init__(self._pipes, answer)

    def close_input(self) -> None:
        """Close the stdin of `farsteer acp`."""
        self._pipes.close()


@asynccontextmanager
async def editor_process(
    *arguments: str,
    command: Sequence[str] = FARSTEER_ACP,
    answer: RequestHandler = unsupported,
    cwd: Path | None = None,
) -> AsyncIterator[EditorProcess]:
    """Start `farsteer acp` as an editor does. Every line of its stdout must be a protocol message."""
    process = await asyncio.create_subprocess_exec(
        *command, *arguments, stdin=PIPE, stdout=PIPE, cwd=cwd, env=dict(os.environ), start_new_session=True
    )
    editor = EditorProcess(process, answer)
    running = asyncio.create_task(editor.peer.run())
    try:
        yield editor
        editor.close_input()
        async with asyncio.timeout(SECONDS):
            await running
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
