"""Requests to Droid and their responses.

Older CLIs answer a request they cannot decode with `id: null`. So only one request that somebody waits for is open at a
time, and such an error is taken as its response. A second response to the same request is an error report of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from farsteer.agents.droid.protocol import Failure, Response, encode_request
from farsteer.core.droid import DISCONNECTED, SESSION_NOT_FOUND
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, FarsteerError, NotCapable, NotFound
from farsteer.jsonrpc.errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR

_MAX_ANSWERED = 32
"""How many answered requests are remembered, to recognise a second response."""

T = TypeVar("T")


@dataclass(slots=True)
class _OpenRequest:
    method: str
    result: asyncio.Future[msgspec.Raw] | None
    """None if nobody waits for the response."""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class UnmatchedError:
    """An error response that nobody waits for."""

    request_id: str | None
    method: str | None
    """The method of the request it belongs to, if that is known."""
    failure: Failure


class RpcClient:
    """Sends requests through `write`. Responses are passed to `handle_response`."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._open: dict[str, _OpenRequest] = {}
        self._answered: dict[str, str] = {}
        self._call_lock = asyncio.Lock()
        self._last_id = 0
        self._closed: FarsteerError | None = None

    def next_id(self) -> str:
        self._last_id += 1
        return str(self._last_id)

    async def call(
        self, method: str, params: dict[str, Any], timeout: float, *, request_id: str | None = None,
        optional: bool = False,
    ) -> msgspec.Raw:  # fmt: skip
        """Send a request and return its result.

        Raises:
            NotCapable: The CLI does not have the method, and it is `optional`.
            FarsteerError: Droid answered with an error, did not answer in time or has exited.
        """
        try:
            async with asyncio.timeout(timeout), self._call_lock:
                return await self._exchange(method, params, request_id or self.next_id(), optional)
        except TimeoutError:
            message = f"Droid did not answer {method} within {timeout:g} s"
            raise AgentError(message, code=ErrorCode.TIMEOUT) from None

    async def send(self, method: str, params: dict[str, Any]) -> None:
        """Send a request without waiting for its response, also while a call is open."""
        self._check_open()
        request_id = self.next_id()
        self._open[request_id] = _OpenRequest(method, None)
        await self._write(encode_request(request_id, method, params))

    def handle_response(self, response: Response) -> UnmatchedError | None:
        """Pass a response to the call that waits for it; return an error that no call waits for."""
        request_id = self._oldest() if response.id is None and response.error else str(response.id)
        request = self._open.pop(request_id, None) if request_id is not None else None
        if request is None:
            return self._unmatched(request_id, response)
        assert request_id is not None
        self._remember(request_id, request.method)
        if request.result is None:
            return self._unmatched(request_id, response)
        if not request.result.done():
            if response.error is None:
                request.result.set_result(response.result)
            else:
                request.result.set_exception(
                    _to_error(request.method, response.error, optional=request.optional)
                )
        return None

    def is_open(self, request_id: str | None) -> bool:
        """Whether the request was sent and has no response yet."""
        return request_id in self._open

    def close(self, error: FarsteerError) -> None:
        """Fail open and later requests with this error, because Droid has exited."""
        self._closed = error
        for request in self._open.values():
            if request.result is not None and not request.result.done():
                request.result.set_exception(error)
        self._open.clear()

    async def _exchange(
        self, method: str, params: dict[str, Any], request_id: str, optional: bool
    ) -> msgspec.Raw:
        self._check_open()
        result: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._open[request_id] = _OpenRequest(method, result, optional)
        try:
            await self._write(encode_request(request_id, method, params))
            return await result
        finally:
            if self._open.pop(request_id, None) is not None:
                self._remember(request_id, method)
            if result.done() and not result.cancelled():
                result.exception()  # Mark it as retrieved, in case the write failed first.

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    def _oldest(self) -> str | None:
        """Return the request that an error without an id belongs to: one that somebody waits for comes first."""
        waited_for = (known for known, request in self._open.items() if request.result is not None)
        return next(waited_for, None) or next(iter(self._open), None)

    def _remember(self, request_id: str, method: str) -> None:
        self._answered[request_id] = method
        if len(self._answered) > _MAX_ANSWERED:
            del self._answered[next(iter(self._answered))]

    def _unmatched(self, request_id: str | None, response: Response) -> UnmatchedError | None:
        if response.error is None:
            return None
        method = self._answered.get(request_id) if request_id is not None else None
        return UnmatchedError(request_id, method, response.error)


def decode_result(result: msgspec.Raw, kind: type[T]) -> T:
    """Decode the result of a call. Raises AgentError `agent_protocol` if it has another shape."""
    try:
        return msgspec.json.decode(result, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"cannot decode Droid's answer: {error}"
        raise AgentError(message, code=ErrorCode.AGENT_PROTOCOL) from None


def _to_error(method: str, failure: Failure, *, optional: bool) -> FarsteerError:
    """Return our error for Droid's. Older and newer CLIs use different codes for an unknown method."""
    text, code = failure.message or "no reason given", failure.code
    if optional and code in (METHOD_NOT_FOUND, INVALID_REQUEST):
        return NotCapable(f"this version of Droid has no {method}", rpc_code=code)
    if code in (INVALID_REQUEST, INVALID_PARAMS, METHOD_NOT_FOUND):
        return BadRequest(f"Droid refuses {method}: {text}", rpc_code=code)
    if code == SESSION_NOT_FOUND:
        return NotFound(f"Droid: {text}", rpc_code=code)
    codes = {PARSE_ERROR: ErrorCode.AGENT_PROTOCOL, DISCONNECTED: ErrorCode.AGENT_DIED}
    our_code = codes.get(code, ErrorCode.AGENT_FAILED)
    return AgentError(f"Droid: {text} ({method})", code=our_code, rpc_code=code)
