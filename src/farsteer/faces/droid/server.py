"""Serves one client that speaks `stream-jsonrpc`, from its first line to its last."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from farsteer.core import droid
from farsteer.core.errors import BadRequest, ErrorCode, FarsteerError, NotFound
from farsteer.core.json_limits import JsonTooComplex
from farsteer.core.lines import Line, Oversized
from farsteer.core.wire import decode
from farsteer.faces.droid import protocol
from farsteer.faces.droid.attached_session import ProtocolWriter
from farsteer.faces.droid.methods import METHODS, Methods, NoSession
from farsteer.faces.droid.sessions import ServerOptions, SessionFinder
from farsteer.faces.hub_connection import HubConnection, OpenHub
from farsteer.jsonrpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from farsteer.jsonrpc.input_check import check_input
from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter

_logger = logging.getLogger(__name__)

DRAIN_TIMEOUT = 30.0
"""How long running turns may go on after the client's last line."""
FLUSH_TIMEOUT = 5.0

_LOAD_SESSION = f"{droid.METHOD_PREFIX}{droid.Method.LOAD_SESSION}"


class Server:
    def __init__(
        self, options: ServerOptions, reader: StdinReader, writer: StdoutWriter, hub: OpenHub
    ) -> None:
        self._options = options
        self._reader = reader
        self._raw_writer = writer
        self._writer = ProtocolWriter(writer, options.dialect)
        self._shutdown = asyncio.Event()
        self._connection = HubConnection(hub)
        self._connection.connect()
        finder = SessionFinder(options, self._connection)
        self._methods = Methods(options, self._writer, finder, self._shutdown)

    def shut_down(self) -> None:
        """Interrupt running turns and let `run` return."""
        self._shutdown.set()

    async def run(self) -> None:
        """Serve until the client's last line, its disappearance or `shut_down`.

        Raises:
            FarsteerError: The session that the options name cannot be entered.
        """
        reading = asyncio.create_task(self._read_lines())
        shutting_down = asyncio.create_task(self._shutdown.wait())
        client_gone = asyncio.create_task(self._raw_writer.broken.wait())
        tasks = (reading, shutting_down, client_gone)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reading in done:
                reading.result()
            await self._methods.finish(DRAIN_TIMEOUT if done == {reading} else 0)
            await self._raw_writer.flush(FLUSH_TIMEOUT)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._methods.close()
            await self._connection.close()
            self._raw_writer.close()

    async def _read_lines(self) -> None:
        await self._methods.enter_initial_session()
        async for batch in self._reader.batches():
            for line in batch:
                await self._handle_line(line)

    async def _handle_line(self, line: Line) -> None:
        if isinstance(line, Oversized):
            await self._writer.error(None, PARSE_ERROR, f"Line too long: {line.size} bytes")
            return
        if not line.strip():
            return
        decoded = await _decode_line(line)
        match decoded:
            case protocol.Request():
                await self._handle_request(decoded)
            case protocol.Response():
                await self._methods.handle_response(decoded)
            case protocol.ClientNotification():
                _logger.info("ignored a notification from the client: %s", decoded.method)
            case protocol.InvalidLine():
                await self._writer.error(None, PARSE_ERROR, decoded.message)

    async def _handle_request(self, request: protocol.Request) -> None:
        method = METHODS.get(request.method)
        if method is None:
            await self._reject(request, METHOD_NOT_FOUND, f"Unknown method: {request.method}")
            return
        try:
            if isinstance(request.params, msgspec.UnsetType):
                raise msgspec.ValidationError("params: Required")
            params = decode(request.params, method.params_of(self._options.dialect))
            await method.handle(self._methods, request.id, params)
        except (msgspec.DecodeError, BadRequest) as error:
            reason = f"Invalid request for {request.method}: {error}"
            await self._reject(request, INVALID_PARAMS, reason)
        except NoSession:
            await self._writer.error(request.id, INTERNAL_ERROR, droid.NO_ACTIVE_SESSION)
        except FarsteerError as error:
            await self._report_failure(request, error)
        except Exception as error:
            _logger.exception("%s failed", request.method)
            await self._writer.error(request.id, INTERNAL_ERROR, f"Internal error: {type(error).__name__}")

    async def _report_failure(self, request: protocol.Request, error: FarsteerError) -> None:
        if isinstance(error, NotFound) and request.method == _LOAD_SESSION:
            await self._writer.error(request.id, droid.SESSION_NOT_FOUND, "Session not found")
        elif error.code is ErrorCode.DIRECTORY_MISSING:
            await self._writer.error(request.id, INTERNAL_ERROR, "Working directory does not exist")
        else:
            await self._writer.error(request.id, INTERNAL_ERROR, error.message)

    async def _reject(self, request: protocol.Request, code: int, reason: str) -> None:
        """Answer an invalid request: with its id and the reason, or in older dialects without either."""
        if self._options.dialect.errors_have_id:
            await self._writer.error(request.id, code, reason)
        else:
            _logger.warning("request %s: %s", request.id, reason)
            await self._writer.error(None, INVALID_REQUEST, protocol.INVALID_REQUEST_FORMAT)


async def _decode_line(line: bytes) -> protocol.Line | protocol.InvalidLine:
    try:
        await check_input(line)
    except JsonTooComplex as error:
        _logger.warning("refused a line of %d bytes: %s", len(line), error)
        return protocol.InvalidLine(protocol.NOT_JSON)
    return protocol.decode_line(line)
