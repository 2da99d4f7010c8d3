"""One side of a JSON-RPC connection.

Incoming messages of one session (the `sessionId` of their parameters) are handled in order, and so are the responses to
requests that name a session: whoever receives a response has already seen every earlier message. Outgoing messages keep
their order and are written many at a time. Every incoming request gets exactly one response, even if it is cancelled,
its handler fails or the connection closes.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from farsteer.core.errors import FarsteerError
from farsteer.core.lines import Line
from farsteer.core.wire import encode
from farsteer.jsonrpc.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PeerDisconnected,
    RpcError,
    request_cancelled,
    rpc_error,
)
from farsteer.jsonrpc.keyed_queue import KeyedQueue
from farsteer.jsonrpc.messages import (
    InvalidMessage,
    RequestId,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResponse,
    as_object,
    decode_line,
)
from farsteer.jsonrpc.time_slice import TimeSlice

CANCEL_REQUEST = "$/cancel_request"

_MAX_UNSENT_BYTES = 1024 * 1024
"""`drain` waits while more than this is waiting to be written."""
_MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""Reading pauses while more than this is waiting to be written: the other side sends but does not read."""
_MAX_UNHANDLED = 10_000
"""Reading pauses while more messages than this are waiting for their handler."""
_MAX_OPEN_REQUESTS = 10_000
"""Further incoming requests are refused."""
_FINISH_SECONDS = 1.0
"""How long requests may still be answered after the other side has closed its end."""

_logger = logging.getLogger(__name__)


class Transport(Protocol):
    """Carries lines: a pair of pipes, a websocket."""

    def batches(self) -> AsyncIterator[list[Line]]:
        """Yield the lines of the other side as they arrive, until it closes."""
        ...

    async def write(self, data: bytes) -> None:
        """Write whole lines, each with its newline. Returns when more may be written."""
        ...


class Handler(Protocol):
    """Handles what the other side sends. Parameters are passed on unchecked, as they were received."""

    async def handle_request(self, method: str, params: Any) -> Any:
        """Return the result. Raise RpcError or FarsteerError to refuse the request."""
        ...

    async def handle_notification(self, method: str, params: Any) -> None:
        """Must not wait for a response from the other side: later messages of the session wait for this one."""
        ...


class _OpenRequest(NamedTuple):
    """A request that the other side has not answered."""

    session_id: str | None
    response: asyncio.Future[Any]


class Peer:
    def __init__(self, transport: Transport, handler: Handler) -> None:
        self._transport = transport
        self._handler = handler
        self._request_ids = itertools.count(1)
        self._sent_requests: dict[RequestId, _OpenRequest] = {}
        self._queue = KeyedQueue()
        self._queued_requests: dict[RequestId, bool] = {}
        """Incoming requests whose handler has not started, and whether they have been cancelled since."""
        self._running_requests: dict[RequestId, asyncio.Task[None]] = {}
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._written = asyncio.Event()
        self._written.set()
        self._closed = False
        self._send_closed = False

    async def run(self, wait_until_started: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Handle messages until the other side closes the connection, then close this side.

        Args:
            wait_until_started: Called if requests are still open after their time limit. If the handler was still
                starting, it waits for that and returns True, and the requests get their time once more.
        """
        try:
            time_slice = TimeSlice()
            async for batch in self._transport.batches():
                for line in batch:
                    for message in await decode_line(line):
                        self._receive(message)
                    await self._drain(_MAX_UNREAD_BYTES)
                    await time_slice.give_way()
                await self._queue.wait_for_capacity(_MAX_UNHANDLED)
            await self._finish_requests()
            if self.task_count and wait_until_started is not None and await wait_until_started():
                await self._finish_requests()
        finally:
            await self.close()

    @property
    def closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        """Fail the requests of both sides that are still open, and write what is left. Idempotent."""
        self._closed = True
        for request in [*self._sent_requests.values()]:
            if not request.response.done():
                request.response.set_exception(PeerDisconnected())
        running = [*self._running_requests.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._queue.close()
        for id in self._queued_requests:
            self._send_error(id, PeerDisconnected())
        self._queued_requests.clear()
        self._send_closed = True
        await self.flush()

    @property
    def task_count(self) -> int:
        """Number of tasks that handle incoming messages."""
        return len(self._running_requests) + self._queue.task_count

    async def _finish_requests(self) -> None:
        """Let running handlers answer: the other side may still read although it sends nothing more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                await self._queue.join()
                while self._running_requests:
                    await asyncio.wait([*self._running_requests.values()])

    # -- sending

    def request(
        self, method: str, params: Any = None, *, session_id: str | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Send a request and return a coroutine that waits for its result.

        The request takes its place among the outgoing messages when this function is called, not when its result is
        awaited. Cancelling the coroutine tells the other side that the result is no longer needed.

        Args:
            session_id: handle the response after all earlier messages of this session.

        Raises:
            RpcError: the other side answered with an error.
            PeerDisconnected: the connection closed before it answered.
        """
        id = next(self._request_ids)
        request = _OpenRequest(session_id, asyncio.get_running_loop().create_future())
        if self._closed:
            request.response.set_exception(PeerDisconnected())
        else:
            self._sent_requests[id] = request
            self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return self._wait_for_response(id, request)

    async def _wait_for_response(self, id: int, request: _OpenRequest) -> Any:
        try:
            return await request.response
        except asyncio.CancelledError:
            self.notify(CANCEL_REQUEST, {"requestId": id})
            raise
        finally:
            self._sent_requests.pop(id, None)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification. Call `drain` between many of them."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def send_encoded(self, message: bytes) -> None:
        """Send a message that is already encoded as one line of JSON, without its newline."""
        if self._send_closed:
            return
        self._unsent.append(message)
        self._unsent_bytes += len(message) + 1
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_unsent())

    @property
    def send_buffer_full(self) -> bool:
        return self._unsent_bytes > _MAX_UNSENT_BYTES

    async def drain(self) -> None:
        """Wait while the other side reads more slowly than this side sends."""
        await self._drain(_MAX_UNSENT_BYTES)

    async def _drain(self, limit: int) -> None:
        while self._unsent_bytes > limit and not self._closed:
            self._written.clear()
            await self._written.wait()

    async def flush(self) -> None:
        """Wait until everything sent so far is written."""
        while self._writer is not None and not self._writer.done():
            await asyncio.wait([self._writer])

    def _send_error(self, id: RequestId, error: RpcError) -> None:
        self._send({"jsonrpc": "2.0", "id": id, "error": error.body})

    def _send(self, message: dict[str, Any]) -> None:
        self.send_encoded(encode(message))

    async def _write_unsent(self) -> None:
        while self._unsent:
            data, self._unsent = b"\n".join((*self._unsent, b"")), []
            try:
                await self._transport.write(data)
            except Exception:
                _logger.debug("could not write to the other side", exc_info=True)
            self._unsent_bytes -= len(data)
            self._written.set()

    # -- receiving

    def _receive(self, message: RpcMessage) -> None:
        match message:
            case RpcRequest():
                self._receive_request(message)
            case RpcNotification() if message.method == CANCEL_REQUEST:
                self._cancel_request(message.params)
            case RpcNotification():
                self._queue.put(
                    _session_id(message.params),
                    lambda: self._handler.handle_notification(message.method, message.params),
                )
            case RpcResponse():
                request = self._sent_requests.get(message.id)
                if request is not None:
                    self._queue.put(request.session_id, lambda: _resolve(request.response, message))
            case InvalidMessage():
                self._send_error(message.id, message.error)

    def _receive_request(self, request: RpcRequest) -> None:
        if request.id in self._queued_requests or request.id in self._running_requests:
            self._send_error(request.id, RpcError(INVALID_REQUEST, "a request with this id is still running"))
        elif len(self._queued_requests) + len(self._running_requests) >= _MAX_OPEN_REQUESTS:
            self._send_error(request.id, RpcError(INVALID_REQUEST, "too many requests are running"))
        else:
            self._queued_requests[request.id] = False
            self._queue.put(_session_id(request.params), lambda: self._start_request(request))

    async def _start_request(self, request: RpcRequest) -> None:
        """Start the handler in a task of its own, so that it does not delay later messages of its session."""
        if self._queued_requests.pop(request.id):
            self._send_error(request.id, request_cancelled())
            return
        task = asyncio.get_running_loop().create_task(self._answer(request))
        self._running_requests[request.id] = task
        task.add_done_callback(lambda _: self._answer_unstarted(request.id))
        # Let the handler take its first step before the next message is handled.
        await asyncio.sleep(0)

    def _answer_unstarted(self, id: RequestId) -> None:
        """Answer a request whose task was cancelled before its first step: `_answer` never ran."""
        if self._running_requests.pop(id, None) is not None:
            self._send_error(id, request_cancelled())

    async def _answer(self, request: RpcRequest) -> None:
        response: dict[str, Any] = {"jsonrpc": "2.0", "id": request.id}
        try:
            response["result"] = await self._handler.handle_request(request.method, request.params)
        except asyncio.CancelledError:
            response["error"] = request_cancelled().body
        except RpcError as error:
            response["error"] = error.body
        except FarsteerError as error:
            response["error"] = rpc_error(error).body
        except Exception as error:
            _logger.exception("%s failed", request.method)
            reason = f"{request.method} failed: {type(error).__name__}"
            response["error"] = RpcError(INTERNAL_ERROR, reason).body
        finally:
            self._running_requests.pop(request.id, None)
        self._send(response)

    def _cancel_request(self, params: Any) -> None:
        id = (as_object(params) or {}).get("requestId")
        if not isinstance(id, str | int | float):
            return
        if id in self._queued_requests:
            self._queued_requests[id] = True
        task = self._running_requests.get(id)
        if task is not None:
            task.cancel()


async def _resolve(future: asyncio.Future[Any], response: RpcResponse) -> None:
    if future.done():
        return
    if response.error is not None:
        future.set_exception(response.error)
    else:
        future.set_result(response.result)


def _session_id(params: Any) -> str | None:
    session_id = (as_object(params) or {}).get("sessionId")
    return session_id if isinstance(session_id, str) else None
