"""Control requests: each gets its own answer, or an error in bounded time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from farsteer.agents.claude.control import ControlChannel
from farsteer.agents.claude.protocol import ControlResult
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, NotCapable


class Peer:
    """Claude Code's side of the channel."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.channel = ControlChannel(self._write)

    async def _write(self, line: bytes) -> None:
        self.asked.put_nowait(json.loads(line))

    async def answer(self, subtype: str = "success", **fields: Any) -> dict[str, Any]:
        asked = await self.asked.get()
        self.channel.handle(ControlResult(request_id=asked["request_id"], subtype=subtype, **fields))
        return asked["request"]


async def test_answers_find_their_requests_in_any_order() -> None:
    peer = Peer()
    first = asyncio.create_task(peer.channel.ask("one", 10, a=1))
    second = asyncio.create_task(peer.channel.ask("two", 10))
    one, two = await peer.asked.get(), await peer.asked.get()
    assert one["request"] == {"subtype": "one", "a": 1}
    for asked, answer in ((two, {"is": 2}), (one, None)):
        peer.channel.handle(ControlResult(request_id=asked["request_id"], subtype="success", response=answer))
    assert (await first, await second) == ({}, {"is": 2})


async def test_an_unknown_request_is_a_missing_capability_and_a_refused_one_a_bad_request() -> None:
    peer = Peer()
    for fields, kind in (
        ({"error": "Unsupported control request subtype: x"}, NotCapable),
        ({"error": "?", "error_code": "unsupported_request"}, NotCapable),
        ({"error": "no such model"}, BadRequest),
    ):
        asking = asyncio.create_task(peer.channel.ask("x", 10))
        await peer.answer("error", **fields)
        with pytest.raises(kind):
            await asking


async def test_no_answer_is_a_timeout_and_a_late_one_is_dropped() -> None:
    peer = Peer()
    with pytest.raises(AgentError) as caught:
        await peer.channel.ask("x", 0.01)
    assert caught.value.code is ErrorCode.TIMEOUT
    await peer.answer()


async def test_the_end_of_the_process_fails_every_request() -> None:
    peer = Peer()
    asking = asyncio.create_task(peer.channel.ask("x", 10))
    await peer.asked.get()
    peer.channel.close(AgentError("it died", code=ErrorCode.AGENT_DIED))
    for request in (asking, peer.channel.ask("y", 10)):
        with pytest.raises(AgentError) as caught:
            await request
        assert caught.value.code is ErrorCode.AGENT_DIED
