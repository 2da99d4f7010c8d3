"""The hooks of Claude Code's own interface, which it sends to us over HTTP."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import h11
import msgspec

from farsteer.core.wire import decode, encode

TOKEN_VARIABLE = "FARSTEER_HOOK_TOKEN"  # noqa: S105 - the name of a variable
"""The variable of Claude Code's process that has the token of its requests."""

_HOOKS = ("UserPromptSubmit", "PreToolUse", "PermissionRequest", "Stop", "StopFailure")
_HOOK_SECONDS = 7 * 86400
"""A permission may wait as long for an answer."""
_READ_BYTES = 65536
_MAX_BODY = 64 * 1024 * 1024

_logger = logging.getLogger(__name__)

HandleHook = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class HookServer:
    """Receives hooks on a port of the loopback interface. `handle` returns the output of a hook."""

    def __init__(self, handle: HandleHook) -> None:
        self._handle = handle
        self.token = secrets.token_urlsafe(32)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def close(self) -> None:
        """Stop listening. Hooks that wait for an answer get none."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def settings(self) -> dict[str, Any]:
        """Return the settings that make Claude Code send its hooks. They are added to those of the owner."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        hook = {
            "type": "http", "url": f"http://127.0.0.1:{port}/", "timeout": _HOOK_SECONDS,
            "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"}, "allowedEnvVars": [TOKEN_VARIABLE],
        }  # fmt: skip
        return {"hooks": {name: [{"hooks": [hook]}] for name in _HOOKS}}

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, h11.RemoteProtocolError) as error:
            _logger.debug("a connection of a hook ended: %s", error)
        except asyncio.CancelledError:
            pass  # `close`
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            request = await self._read_request(connection, reader)
            if request is None:
                return
            answer = await self._answer_while_open(connection, reader, *request)
            if answer is None:
                return
            status, body = answer
            headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
            for event in (
                h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage(),
            ):  # fmt: skip
                writer.write(connection.send(event) or b"")
            await writer.drain()
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _read_request(
        self, connection: h11.Connection, reader: asyncio.StreamReader
    ) -> tuple[h11.Request, bytes] | None:
        """Return the next request with its body, None at the end of the connection."""
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > _MAX_BODY:
                    raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                return request, bytes(body)
            else:
                return None

    async def _answer_while_open(
        self, connection: h11.Connection, reader: asyncio.StreamReader, request: h11.Request, body: bytes
    ) -> tuple[int, bytes] | None:
        """Return the answer, or None if Claude Code no longer waits for it and has closed the connection."""
        answering = asyncio.create_task(self._answer(request, body))
        reading = asyncio.create_task(reader.read(_READ_BYTES))
        try:
            await asyncio.wait((answering, reading), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                data = reading.result()
                connection.receive_data(data)
                if not data and not answering.done():
                    return None
            return await answering
        finally:
            answering.cancel()
            if not reading.done():
                # The next request is read by the next call.
                reading.cancel()
            await asyncio.gather(answering, reading, return_exceptions=True)

    async def _answer(self, request: h11.Request, body: bytes) -> tuple[int, bytes]:
        given = dict(request.headers).get(b"authorization", b"")
        if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
            return 401, b"{}"
        try:
            payload = decode(body, dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            return 400, b"{}"
        try:
            return 200, encode(await self._handle(payload))
        except Exception:
            _logger.exception("a hook of Claude Code failed")
            return 500, b"{}"
