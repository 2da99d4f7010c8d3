"""Requests to Droid and what becomes of them.

Older CLIs answer a request they cannot read with `id: null`, so one request is under way at a time and such an error
belongs to it. A second answer to the same request is no answer but news: `take` returns it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from farsteer.agents.droid import wire
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, FarsteerError, NotCapable, NotFound

INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
NOT_FOUND = -32004
DISCONNECTED = -32005
PARSE_ERROR = -32700

_REMEMBERED = 32

T = TypeVar("T")


@dataclass(slots=True)
class _Open:
    method: str
    answer: asyncio.Future[msgspec.Raw] | None
    """None: nobody waits."""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Stray:
    """An answer that nobody waits for."""

    request_id: str | None
    method: str | None
    """The request it belongs to, where that is known."""
    failure: wire.Failure | None


class Rpc:
    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._open: dict[str, _Open] = {}
        self._settled: dict[str, str] = {}
        self._one_at_a_time = asyncio.Lock()
        self._last = 0
        self._ended: FarsteerError | None = None

    def new_id(self) -> str:
        self._last += 1
        return str(self._last)

    async def call(
        self, method: str, params: dict[str, Any], timeout: float, *, request_id: str | None = None,
        optional: bool = False,
    ) -> msgspec.Raw:  # fmt: skip
        """Ask and wait for the answer. `optional`: a CLI that does not know the method raises NotCapable."""
        try:
            async with asyncio.timeout(timeout), self._one_at_a_time:
                return await self._exchange(method, params, request_id or self.new_id(), optional)
        except TimeoutError:
            message = f"Droid did not answer {method} within {timeout:g} s"
            raise AgentError(message, code=ErrorCode.TIMEOUT) from None

    async def post(self, method: str, params: dict[str, Any]) -> None:
        """Ask, also while something else is under way, and do not wait: what it does is seen elsewhere."""
        self._check()
        request_id = self.new_id()
        self._open[request_id] = _Open(method, None)
        await self._write(wire.request(request_id, method, params))

    def take(self, response: wire.Response) -> Stray | None:
        """Hand an answer to whoever waits for it; what nobody waits for comes back, unless it says nothing."""
        request_id = self._oldest() if response.id is None and response.error else str(response.id)
        request = self._open.pop(request_id, None) if request_id is not None else None
        if request is None:
            return self._stray(request_id, response)
        assert request_id is not None
        self._settle(request_id, request.method)
        if request.answer is None:
            return self._stray(request_id, response)
        if not request.answer.done():
            if response.error is None:
                request.answer.set_result(response.result)
            else:
                request.answer.set_exception(
                    _error(request.method, response.error, optional=request.optional)
                )
        return None

    def waits_for(self, request_id: str | None) -> bool:
        """It is under way and has had no answer."""
        return request_id in self._open

    def end(self, error: FarsteerError) -> None:
        """Droid is gone: nothing will be answered any more."""
        self._ended = error
        for request in self._open.values():
            if request.answer is not None and not request.answer.done():
                request.answer.set_exception(error)
        self._open.clear()

    async def _exchange(
        self, method: str, params: dict[str, Any], request_id: str, optional: bool
    ) -> msgspec.Raw:
        self._check()
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._open[request_id] = _Open(method, answer, optional)
        try:
            await self._write(wire.request(request_id, method, params))
            return await answer
        finally:
            if self._open.pop(request_id, None) is not None:
                self._settle(request_id, method)
            if answer.done() and not answer.cancelled():
                answer.exception()  # also when the write failed first and nobody asks for it any more

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _oldest(self) -> str | None:
        """Whose fault an error without an id is: the request that somebody waits for comes first."""
        waited = (known for known, request in self._open.items() if request.answer is not None)
        return next(waited, None) or next(iter(self._open), None)

    def _settle(self, request_id: str, method: str) -> None:
        self._settled[request_id] = method
        if len(self._settled) > _REMEMBERED:
            del self._settled[next(iter(self._settled))]

    def _stray(self, request_id: str | None, response: wire.Response) -> Stray | None:
        if response.error is None:
            return None
        method = self._settled.get(request_id) if request_id is not None else None
        return Stray(request_id, method, response.error)


def read(answer: msgspec.Raw, kind: type[T]) -> T:
    """What a request returned. Raises AgentError when it is not what it should be."""
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"Droid's answer is not understood: {error}"
        raise AgentError(message, code=ErrorCode.AGENT_PROTOCOL) from None


def _error(method: str, failure: wire.Failure, *, optional: bool) -> FarsteerError:
    """Droid's two vocabularies of errors in our one."""
    text, code = failure.message or "no reason given", failure.code
    if optional and code in (UNKNOWN_METHOD, INVALID_REQUEST):
        return NotCapable(f"this version of Droid has no {method}", rpc_code=code)
    if code in (INVALID_REQUEST, INVALID_PARAMS, UNKNOWN_METHOD):
        return BadRequest(f"Droid refuses {method}: {text}", rpc_code=code)
    if code == NOT_FOUND:
        return NotFound(f"Droid: {text}", rpc_code=code)
    ours = {PARSE_ERROR: ErrorCode.AGENT_PROTOCOL, DISCONNECTED: ErrorCode.AGENT_DIED}
    return AgentError(f"Droid: {text} ({method})", code=ours.get(code, ErrorCode.AGENT_FAILED), rpc_code=code)
