"""The Socket.IO clients for JavaScript and Python, each with three combinations of transports."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import socketio

from tests.support.node import JS, NODE

TRANSPORTS = {"websocket": ["websocket"], "polling": ["polling"], "upgrade": ["polling", "websocket"]}
DEADLINE = 20.0


class ReceivedEvents:
    """What a client received, in order, as (kind, value)."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.numbers: list[Any] = []
        """The payloads of message-received."""
        self._changed = asyncio.Event()

    def add(self, kind: str, value: Any) -> None:
        self.log.append((kind, value))
        if kind == "event" and value["type"] == "message-received":
            self.numbers.append(value["message"])
        self._changed.set()

    def of(self, kind: str) -> list[Any]:
        return [value for found, value in self.log if found == kind]

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.of("event")

    async def until(self, kind: str, count: int = 1, seconds: float = DEADLINE) -> Any:
        async with asyncio.timeout(seconds):
            while len(self.of(kind)) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.of(kind)[-1]

    async def until_number(self, number: object, seconds: float = DEADLINE) -> list[Any]:
        async with asyncio.timeout(seconds):
            while not self.numbers or self.numbers[-1] != number:
                self._changed.clear()
                await self._changed.wait()
        return self.numbers


class JavaScriptClient(ReceivedEvents):
    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process

    def send_command(self, command: str, *values: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, values]).encode() + b"\n")

    async def read_output(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            kind, value = json.loads(line)
            self.add(kind, value)


@asynccontextmanager
async def javascript(
    url: str, transport: str, auth: dict[str, Any], namespace: str = "/events", **options: Any
) -> AsyncIterator[JavaScriptClient]:
    settings = {"transports": TRANSPORTS[transport], "auth": auth, "reconnectionDelay": 50, **options}
    process = await asyncio.create_subprocess_exec(
        NODE, JS / "live.mjs", json.dumps({"url": url + namespace, "options": settings}),
        stdin=PIPE, stdout=PIPE, limit=64 * 1024 * 1024,
    )  # fmt: skip
    client = JavaScriptClient(process)
    reading = asyncio.create_task(client.read_output())
    try:
        yield client
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(10):
            await reading
            await process.wait()


@asynccontextmanager
async def python(
    url: str, transport: str, auth: dict[str, Any], namespace: str = "/events", **options: Any
) -> AsyncIterator[ReceivedEvents]:
    received = ReceivedEvents()
    tracing = aiohttp.TraceConfig()
    tracing.on_request_end.append(_read_answer)
    async with aiohttp.ClientSession(trace_configs=[tracing]) as session:
        client = socketio.AsyncClient(reconnection=False, http_session=session, **options)
        for name in ("connect", "connect_error", "disconnect", "ready", "event", "closed"):

            async def handler(*values: Any, name: str = name) -> None:
                received.add(name, values[0] if values else None)

            client.on(name, handler, namespace=namespace)
        await client.connect(url, auth=auth, namespaces=[namespace], transports=TRANSPORTS[transport])
        try:
            yield received
        finally:
            await client.disconnect()


async def _read_answer(_session: Any, _context: Any, answered: aiohttp.TraceRequestEndParams) -> None:
    """Read the responses that python-engineio leaves unread; aiohttp would warn about them at random times."""
    if answered.response.status != 101:
        await answered.response.read()


CLIENTS = {"javascript": javascript, "python": python}
