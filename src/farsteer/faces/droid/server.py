"""Answers a client that speaks `stream-jsonrpc`, from its first line to its last."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from farsteer.core.errors import BadRequest, ErrorCode, FarsteerError, NotFound
from farsteer.core.lines import Line, Oversized
from farsteer.faces.droid import wire
from farsteer.faces.droid.conversation import Out
from farsteer.faces.droid.lobby import Lobby, Options
from farsteer.faces.droid.methods import METHODS, Methods, NoSession
from farsteer.faces.hub_connection import HubConnection, OpenHub
from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter

_log = logging.getLogger(__name__)

DRAIN_SECONDS = 30.0
"""How long the turns that run may go on after the client's last line."""
LEAVE_SECONDS = 5.0


class Server:
    def __init__(self, options: Options, reader: StdinReader, writer: StdoutWriter, hub: OpenHub) -> None:
        self._options = options
        self._reader = reader
        self._writer = writer
        self._out = Out(writer, options.dialect)
        self._leave = asyncio.Event()
        self._house = HubConnection(hub)
        self._house.connect()
        self._methods = Methods(options, self._out, Lobby(options, self._house), self._leave)

    def leave(self) -> None:
        """End what runs and go."""
        self._leave.set()

    async def run(self) -> None:
        """Until the client's last line, its disappearance or `leave`. Raises FarsteerError for a wrong start."""
        listening = asyncio.create_task(self._listen())
        leaving = asyncio.create_task(self._leave.wait())
        alone = asyncio.create_task(self._writer.broken.wait())
        try:
            done, _ = await asyncio.wait({listening, leaving, alone}, return_when=asyncio.FIRST_COMPLETED)
            if listening in done:
                listening.result()
            await self._methods.finish(DRAIN_SECONDS if done == {listening} else 0)
            await self._writer.flush(LEAVE_SECONDS)
        finally:
            for task in (listening, leaving, alone):
                task.cancel()
            await asyncio.gather(listening, leaving, alone, return_exceptions=True)
            await self._methods.close()
            await self._house.close()

    async def _listen(self) -> None:
        await self._methods.preload()
        async for batch in self._reader.batches():
            for line in batch:
                await self._take(line)

    async def _take(self, line: Line) -> None:
        if isinstance(line, Oversized):
            await self._refuse(None, wire.PARSE_ERROR, f"Line too long: {line.size} bytes")
            return
        if not line.strip():
            return
        read = wire.decode(line)
        match read:
            case wire.Request():
                await self._request(read)
            case wire.Answer():
                await self._methods.answer(read)
            case wire.Message():
                _log.info("a notification from the client: %s", read.method)
            case wire.Unreadable():
                await self._refuse(None, wire.PARSE_ERROR, read.message)

    async def _request(self, request: wire.Request) -> None:
        method = METHODS.get(request.method)
        if method is None:
            await self._misunderstood(request, wire.UNKNOWN_METHOD, f"Unknown method: {request.method}")
            return
        try:
            if isinstance(request.params, msgspec.UnsetType):
                raise msgspec.ValidationError("params: Required")
            params = msgspec.json.decode(request.params, type=method.params)
            await method.perform(self._methods, request.id, params)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadRequest) as error:
            why = f"Invalid request for {request.method}: {error}"
            await self._misunderstood(request, wire.INVALID_PARAMS, why)
        except NoSession:
            await self._refuse(request.id, wire.INTERNAL, wire.NO_SESSION)
        except FarsteerError as error:
            await self._failed(request, error)
        except Exception as error:  # noqa: BLE001
            _log.exception("%s failed", request.method)
            await self._refuse(request.id, wire.INTERNAL, f"Internal error: {type(error).__name__}")

    async def _failed(self, request: wire.Request, error: FarsteerError) -> None:
        if isinstance(error, NotFound) and request.method == "droid.load_session":
            await self._refuse(request.id, wire.NOT_FOUND, "Session not found")
        elif error.code is ErrorCode.DIRECTORY_MISSING:
            await self._refuse(request.id, wire.INTERNAL, "Working directory does not exist")
        else:
            await self._refuse(request.id, wire.INTERNAL, error.message)

    async def _misunderstood(self, request: wire.Request, code: int, why: str) -> None:
        """By its id and with the reason, or as the document has it: without either."""
        if self._options.dialect.errors_by_id:
            await self._refuse(request.id, code, why)
        else:
            _log.warning("request %s: %s", request.id, why)
            await self._refuse(None, wire.INVALID_REQUEST, wire.NOT_UNDERSTOOD)

    async def _refuse(self, request_id: str | None, code: int, message: str) -> None:
        await self._out.write(self._out.writing.error(request_id, code, message))
