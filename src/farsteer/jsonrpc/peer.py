"""One end of a JSON-RPC connection: dict in, dict out.

What comes is handled in order within a session (`sessionId` of the parameters), answers to our own requests included:
who waits for an answer has seen everything that came before it. What is sent leaves in order, many lines in one write.
Every request is answered exactly once, also when it is cancelled, when its handler fails and when the other end goes.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import Any, Protocol

from farsteer.core.errors import FarsteerError
from farsteer.core.lines import Line
from farsteer.core.wire import encode
from farsteer.jsonrpc.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    PeerDisconnected,
    RpcError,
    rpc_error,
)
from farsteer.jsonrpc.keyed_queue import KeyedQueue
from farsteer.jsonrpc.messages import Answer, Id, Malformed, Message, Notification, Request, fields, read

CANCEL = "$/cancel_request"
_UNSENT = 1024 * 1024
"""Bytes that may wait to be written before `room` waits."""
_UNHANDLED = 10_000
"""Messages that may wait to be handled before nothing more is read."""
_AT_ONCE = 10_000
"""Requests that may be under way; one more is refused."""

_SETTLE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Transport(Protocol):
    """The road beneath: a pair of pipes, a websocket."""

    def batches(self) -> AsyncIterator[list[Line]]:
        """What the other end sends, until its end."""
        ...

    async def write(self, data: bytes) -> None:
        """Whole lines, each with its newline. Returns when more may be written."""
        ...


class Handler(Protocol):
    """Parameters are what was sent, whatever that is; raise RpcError or FarsteerError to refuse.

    A notification's handler holds its session up until it returns, so it must not wait for an answer from the other
    end; a request's may.
    """

    async def request(self, method: str, params: Any) -> Any: ...

    async def notification(self, method: str, params: Any) -> None: ...


class _Call:
    __slots__ = ("answer", "key")

    def __init__(self, key: str | None) -> None:
        self.key = key
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Peer:
    def __init__(self, lines: Transport, handler: Handler) -> None:
        self._lines = lines
        self._handler = handler
        self._ids = itertools.count(1)
        self._calls: dict[Id, _Call] = {}
        self._answering: dict[Id, asyncio.Task[None]] = {}
        self._waiting: dict[Id, bool] = {}
        """Requests that have not begun, and whether each was cancelled before it did."""
        self._lanes = KeyedQueue()
        self._unsent: list[bytes] = []
        self._size = 0
        self._writer: asyncio.Task[None] | None = None
        self._written = asyncio.Event()
        self._written.set()
        self._closed = False
        self._silent = False
        """Nothing more is said."""

    async def run(self) -> None:
        """Until the other end has said its last. Then nobody waits any more, on either side."""
        try:
            async for batch in self._lines.batches():
                for line in batch:
                    for message in read(line):
                        self._take(message)
                await self._lanes.room(_UNHANDLED)
            await self._settle()
        finally:
            await self.close()

    async def _settle(self) -> None:
        """The other end listens perhaps, though it speaks no more: what can be answered soon is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                await self._lanes.empty()
                while self._answering:
                    await asyncio.wait([*self._answering.values()])

    @property
    def closed(self) -> bool:
        """Nobody is there any more."""
        return self._closed

    async def close(self) -> None:
        """Idempotent."""
        self._closed = True
        for call in [*self._calls.values()]:
            if not call.answer.done():
                call.answer.set_exception(PeerDisconnected())
        answering = [*self._answering.values()]
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)
        await self._lanes.close()
        for id in self._waiting:
            self._refuse(id, PeerDisconnected())
        self._waiting.clear()
        self._silent = True
        await self.flushed()

    @property
    def busy(self) -> int:
        """Tasks that this connection keeps."""
        return len(self._answering) + len(self._lanes)

    # -- what we say

    async def call(self, method: str, params: Any = None, *, session: str | None = None) -> Any:
        """Ask, and wait for the answer. Raises RpcError. Who stops waiting tells the other end."""
        return await self.ask(method, params, session=session)

    def ask(self, method: str, params: Any, *, session: str | None = None) -> Awaitable[Any]:
        """As `call`; the question has its place among what is said as soon as this returns."""
        id = next(self._ids)
        call = _Call(session)
        if self._closed:
            call.answer.set_exception(PeerDisconnected())
        else:
            self._calls[id] = call
            self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return self._answered(id, call)

    async def _answered(self, id: int, call: _Call) -> Any:
        try:
            return await call.answer
        except asyncio.CancelledError:
            self.tell(CANCEL, {"requestId": id})
            raise
        finally:
            self._calls.pop(id, None)

    def tell(self, method: str, params: Any) -> None:
        """Say something that is not answered. Who says much waits for `room`."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    @property
    def behind(self) -> bool:
        """The other end has much to read."""
        return self._size > _UNSENT

    async def room(self) -> None:
        """Returns while the other end reads."""
        while self.behind and not self._closed:
            self._written.clear()
            await self._written.wait()

    async def flushed(self) -> None:
        """Everything said so far is written."""
        while self._writer is not None and not self._writer.done():
            await asyncio.wait([self._writer])

    def _refuse(self, id: Id, error: RpcError) -> None:
        self._send({"jsonrpc": "2.0", "id": id, "error": error.body})

    def _send(self, message: dict[str, Any]) -> None:
        self.say(encode(message))

    def say(self, message: bytes) -> None:
        """Send what is encoded already; as `tell` in every other way."""
        if self._silent:
            return
        self._unsent.append(message)
        self._size += len(message) + 1
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._unsent:
            data, self._unsent = b"\n".join((*self._unsent, b"")), []
            try:
                await self._lines.write(data)
            except Exception:  # noqa: BLE001
                _log.debug("the other end reads no more", exc_info=True)
            self._size -= len(data)
            self._written.set()

    # -- what we hear

    def _take(self, message: Message) -> None:
        match message:
            case Request():
                if message.id in self._waiting or message.id in self._answering:
                    self._refuse(message.id, RpcError(INVALID_REQUEST, "a request with this id is under way"))
                    return
                if len(self._waiting) + len(self._answering) >= _AT_ONCE:
                    self._refuse(message.id, RpcError(INVALID_REQUEST, "too many requests are under way"))
                    return
                self._waiting[message.id] = False
                self._lanes.put(_session(message.params), lambda: self._begin(message))
            case Notification(method="$/cancel_request"):
                self._cancel(message.params)
            case Notification():
                self._lanes.put(
                    _session(message.params),
                    lambda: self._handler.notification(message.method, message.params),
                )
            case Answer():
                call = self._calls.get(message.id)
                if call is not None:
                    self._lanes.put(call.key, lambda: _resolve(call, message))
            case Malformed():
                self._refuse(message.id, message.error)

    async def _begin(self, request: Request) -> None:
        """In its place in the order; how long it takes holds nothing up."""
        if self._waiting.pop(request.id):
            self._refuse(request.id, RpcError(REQUEST_CANCELLED, "the request was cancelled"))
            return
        task = asyncio.get_running_loop().create_task(self._answer(request))
        self._answering[request.id] = task
        task.add_done_callback(lambda _: self._never_began(request.id))
        await asyncio.sleep(0)

    def _never_began(self, id: Id) -> None:
        """A task that is cancelled before its first step answers nothing by itself."""
        if self._answering.pop(id, None) is not None:
            self._refuse(id, RpcError(REQUEST_CANCELLED, "the request was cancelled"))

    async def _answer(self, request: Request) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request.id}
        try:
            answer["result"] = await self._handler.request(request.method, request.params)
        except asyncio.CancelledError:
            answer["error"] = RpcError(REQUEST_CANCELLED, "the request was cancelled").body
        except RpcError as error:
            answer["error"] = error.body
        except FarsteerError as error:
            answer["error"] = rpc_error(error).body
        except Exception as error:  # noqa: BLE001
            _log.exception("%s failed", request.method)
            answer["error"] = RpcError(
                INTERNAL_ERROR, f"{request.method} failed: {type(error).__name__}"
            ).body
        finally:
            self._answering.pop(request.id, None)
        self._send(answer)

    def _cancel(self, params: Any) -> None:
        id = (fields(params) or {}).get("requestId")
        if not isinstance(id, str | int | float):
            return
        if id in self._waiting:
            self._waiting[id] = True
        task = self._answering.get(id)
        if task is not None:
            task.cancel()


async def _resolve(call: _Call, answer: Answer) -> None:
    if call.answer.done():
        return
    if answer.error is not None:
        call.answer.set_exception(answer.error)
    else:
        call.answer.set_result(answer.result)


def _session(params: Any) -> str | None:
    """Whose order this belongs to."""
    session = (fields(params) or {}).get("sessionId")
    return session if isinstance(session, str) else None
