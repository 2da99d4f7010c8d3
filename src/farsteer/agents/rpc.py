"""Requests to an agent that speaks JSON-RPC over its pipes, and their responses.

The agent's own lines are read by its adapter, in order and with back-pressure. This class keeps the open requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from farsteer.core.errors import AgentError, ErrorCode, FarsteerError
from farsteer.core.wire import WireStruct, decode

T = TypeVar("T")


class Failure(WireStruct):
    code: int = 0
    message: str = ""
    data: Any = None


class Response(WireStruct):
    id: str | int | None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: Failure | None = None


class RpcClient:
    """Sends requests through `write`. Responses are passed to `handle_response`.

    Args:
        agent: The agent's name for error messages.
        write: Writes a line.
        encode: Returns the line of a request from its id, method and parameters.
        to_error: Returns our error for one that the agent answers a method with.
    """

    def __init__(
        self, agent: str, write: Callable[[bytes], Awaitable[None]],
        encode: Callable[[int, str, dict[str, Any]], bytes], to_error: Callable[[str, Failure], FarsteerError],
    ) -> None:  # fmt: skip
        self._agent = agent
        self._write = write
        self._encode = encode
        self._to_error = to_error
        self._open: dict[int, tuple[str, asyncio.Future[msgspec.Raw]]] = {}
        self._last_id = 0
        self._closed: FarsteerError | None = None

    async def call(self, method: str, params: dict[str, Any], timeout: float) -> msgspec.Raw:
        """Send a request and return its result.

        Raises:
            FarsteerError: The agent answered with an error, did not answer in time or has exited.
        """
        if self._closed is not None:
            raise self._closed
        request_id = self.next_id()
        result: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._open[request_id] = (method, result)
        try:
            async with asyncio.timeout(timeout):
                await self._write(self._encode(request_id, method, params))
                return await result
        except TimeoutError:
            message = f"{self._agent} did not answer {method} within {timeout:g} s"
            raise AgentError(message, code=ErrorCode.TIMEOUT) from None
        finally:
            self._open.pop(request_id, None)
            if result.done() and not result.cancelled():
                result.exception()  # Mark it as retrieved, in case the write failed first.

    def next_id(self) -> int:
        """Return an id for a request whose response the caller takes itself."""
        self._last_id += 1
        return self._last_id

    async def ask(self, method: str, params: dict[str, Any], timeout: float, kind: type[T]) -> T:
        """Do the same and decode the result. Raises AgentError `agent_protocol` if it has another shape."""
        result = await self.call(method, params, timeout)
        try:
            return decode(result, kind)
        except msgspec.DecodeError as error:
            message = f"cannot decode {self._agent}'s answer to {method}: {error}"
            raise AgentError(message, code=ErrorCode.AGENT_PROTOCOL) from None

    def handle_response(self, response: Response) -> bool:
        """Pass a response to the call that waits for it. Returns False if none does."""
        method, result = (
            self._open.pop(response.id, (None, None)) if isinstance(response.id, int) else (None, None)
        )
        if method is None or result is None:
            return False
        if not result.done():
            if response.error is None:
                result.set_result(response.result)
            else:
                result.set_exception(self._to_error(method, response.error))
        return True

    def fail(self, error: FarsteerError) -> None:
        """Fail the open requests with this error, because a response cannot be read."""
        for _, result in self._open.values():
            if not result.done():
                result.set_exception(error)
        self._open.clear()

    def close(self, error: FarsteerError) -> None:
        """Fail open and later requests with this error, because the agent has exited."""
        self._closed = error
        self.fail(error)
