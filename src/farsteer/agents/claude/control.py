"""Control requests: our questions to Claude Code, which it answers by their id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from farsteer.agents.claude.protocol import ControlResult, encode_request
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, FarsteerError, NotCapable
from farsteer.core.ids import new_id


class ControlChannel:
    """The requests that wait for an answer. `write` sends a line."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: dict[str, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._closed: AgentError | None = None

    async def ask(self, subtype: str, timeout: float, **fields: Any) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            NotCapable: This version does not know the request.
            BadRequest: Claude Code refuses it.
            AgentError: `timeout`, or `agent_died`.
        """
        if self._closed is not None:
            raise self._closed
        request_id = new_id()
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = (subtype, future)
        try:
            async with asyncio.timeout(timeout):
                await self._write(encode_request(request_id, {"subtype": subtype, **fields}))
                return await future
        except TimeoutError:
            raise AgentError(
                f"Claude Code did not answer {subtype} within {timeout:g} s", code=ErrorCode.TIMEOUT
            ) from None
        finally:
            del self._waiting[request_id]

    def handle(self, result: ControlResult) -> None:
        """Pass an answer on. One that nobody waits for any more is dropped."""
        subtype, future = self._waiting.get(result.request_id, ("", None))
        if future is None or future.done():
            return
        if result.subtype == "success":
            body = result.response
            future.set_result(cast("dict[str, Any]", body) if isinstance(body, dict) else {})
        else:
            future.set_exception(_to_error(subtype, result))

    def close(self, error: AgentError) -> None:
        """Fail every request, now and later."""
        self._closed = error
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(error)


def _to_error(subtype: str, result: ControlResult) -> FarsteerError:
    text = result.error or "no reason given"
    if result.error_code == "unsupported_request" or text.startswith("Unsupported control request"):
        return NotCapable(f"this version of Claude Code has no {subtype}")
    return BadRequest(f"Claude Code refuses {subtype}: {text}")
