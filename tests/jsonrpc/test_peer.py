"""A JSON-RPC connection: order, exactly one answer, nothing lost on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from farsteer.core.errors import NotFound
from farsteer.core.lines import Line
from farsteer.jsonrpc import peer as peer_module
from farsteer.jsonrpc.errors import PeerDisconnected, RpcError, unknown_method
from farsteer.jsonrpc.messages import Request
from farsteer.jsonrpc.peer import Peer
from tests.support.eventually import eventually

SECONDS = 5.0


class Road:
    """Two ends in memory; what is written comes out in one piece, as a pipe would give it."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.writes: list[bytes] = []
        self.news = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def batches(self) -> AsyncIterator[list[Line]]:
        while (data := await self.incoming.get()) is not None:
            yield list(data.splitlines())

    async def write(self, data: bytes) -> None:
        await self.open.wait()
        self.writes.append(data)
        self.news.set()

    def feed(self, *messages: Any) -> None:
        self.incoming.put_nowait(b"\n".join(json.dumps(message).encode() for message in messages))

    @property
    def sent(self) -> list[Any]:
        return [json.loads(line) for data in self.writes for line in data.splitlines()]

    async def until(self, count: int) -> list[Any]:
        async with asyncio.timeout(SECONDS):
            while len(self.sent) < count:
                self.news.clear()
                await self.news.wait()
        return self.sent


class Handler:
    """Does what the method's name says, and remembers."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.gate = asyncio.Event()
        self.began = asyncio.Event()

    async def request(self, method: str, params: Any) -> Any:
        self.heard.append((method, params))
        match method:
            case "echo":
                return params
            case "wait":
                self.began.set()
                await self.gate.wait()
                return "done"
            case "refuse":
                raise NotFound("no such session")
            case "fail":
                raise ValueError("a secret")
            case _:
                raise unknown_method(method)

    async def notification(self, method: str, params: Any) -> None:
        if method == "slow":
            await self.gate.wait()
        self.heard.append((method, params))


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Peer, Road, Handler]]:
    road, handler = Road(), Handler()
    peer = Peer(road, handler)
    running = asyncio.create_task(peer.run())
    async with asyncio.timeout(SECONDS):
        yield peer, road, handler
        road.incoming.put_nowait(None)
        await running
    assert peer.busy == 0


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def test_a_request_is_answered_with_its_id_and_unknown_things_stay_whole() -> None:
    async with connected() as (_, road, _):
        strange = {"sessionUpdate": "never_seen", "_meta": {"cwd": "/evil"}, "n": [1, None]}
        road.feed(request("a", "echo", **strange), request(7, "echo"), request(None, "echo"))
        sent = await road.until(3)
    assert sent == [
        {"jsonrpc": "2.0", "id": "a", "result": strange},
        {"jsonrpc": "2.0", "id": 7, "result": {}},
        {"jsonrpc": "2.0", "id": None, "result": {}},
    ]


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{nonsense", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[]", -32600, None),
        (b"7", -32600, None),
        (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":2}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":{},"method":"echo"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"nowhere"}', -32601, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"refuse"}', -32002, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"fail"}', -32603, 1),
    ],
)
async def test_what_cannot_be_done_is_answered_and_the_next_request_is_served(
    line: bytes, code: int, id: Any
) -> None:
    async with connected() as (_, road, _):
        road.incoming.put_nowait(line)
        road.feed(request("next", "echo"))
        sent = {message["id"]: message for message in await road.until(2)}
    assert sent[id]["error"]["code"] == code
    assert "secret" not in json.dumps(sent[id])
    assert sent["next"]["result"] == {}


async def test_a_batch_is_its_messages() -> None:
    async with connected() as (_, road, _):
        road.feed([request(1, "echo"), request(2, "echo")])
        assert [message["id"] for message in await road.until(2)] == [1, 2]


async def test_within_a_session_everything_is_handled_in_order_and_no_session_waits_for_another() -> None:
    async with connected() as (_, road, handler):
        road.feed(
            notification("slow", sessionId="a", n=1),
            notification("quick", sessionId="a", n=2),
            request(1, "echo", sessionId="a"),
            request(2, "echo", sessionId="b"),
        )
        assert [message["id"] for message in await road.until(1)] == [2]
        handler.gate.set()
        await road.until(2)
    assert [params.get("n") for _, params in handler.heard if params["sessionId"] == "a"] == [1, 2, None]


async def test_a_long_request_holds_nothing_up() -> None:
    async with connected() as (_, road, handler):
        road.feed(request(1, "wait", sessionId="a"), request(2, "echo", sessionId="a"))
        assert [message["id"] for message in await road.until(1)] == [2]
        handler.gate.set()
        assert [message["id"] for message in await road.until(2)] == [2, 1]


async def test_who_gets_an_answer_has_seen_what_came_before_it() -> None:
    async with connected() as (peer, road, handler):
        asked = asyncio.create_task(peer.call("session/load", {}, session="a"))
        (sent,) = await road.until(1)
        road.feed(
            notification("slow", sessionId="a"), {"jsonrpc": "2.0", "id": sent["id"], "result": {"ok": 1}}
        )
        done, _ = await asyncio.wait([asked], timeout=0.05)
        assert not done
        handler.gate.set()
        assert await asked == {"ok": 1}
        assert handler.heard == [("slow", {"sessionId": "a"})]


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancelled_request_is_answered_once(begun: bool) -> None:
    async with connected() as (_, road, handler):
        if begun:
            road.feed(request(1, "wait"))
            await handler.began.wait()
            road.feed(notification("$/cancel_request", requestId=1))
        else:
            road.feed(request(1, "wait"), notification("$/cancel_request", requestId=1))
        sent = await road.until(1)
        road.feed(request(2, "echo"))
        await road.until(2)
    assert sent[0]["error"]["code"] == -32800
    assert [message["id"] for message in road.sent] == [1, 2]


async def test_an_id_that_is_under_way_is_refused_and_the_first_goes_on() -> None:
    async with connected() as (_, road, handler):
        road.feed(request(1, "wait"))
        await handler.began.wait()
        road.feed(request(1, "echo"))
        assert (await road.until(1))[0]["error"]["code"] == -32600
        handler.gate.set()
        assert (await road.until(2))[1]["result"] == "done"


async def test_a_request_is_answered_also_if_it_is_cancelled_before_its_first_step() -> None:
    async with connected() as (peer, road, handler):
        peer._take(Request("x", "wait", {}))
        # The lane's task makes the request's, and gives way before that has begun.
        await asyncio.sleep(0)
        peer._answering["x"].cancel()
        sent = await road.until(1)
        assert sent[0]["error"]["code"] == -32800
        assert handler.heard == []


async def test_nothing_more_is_read_while_much_is_not_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "_UNHANDLED", 5)
    async with connected() as (_, road, handler):
        for number in range(10):
            road.feed(*(notification("slow", sessionId="a", n=number) for _ in range(5)))
        await eventually(lambda: road.incoming.qsize() < 10)
        for _ in range(20):
            await asyncio.sleep(0)
        assert road.incoming.qsize() >= 7
        handler.gate.set()
    assert len(handler.heard) == 50


async def test_who_stops_waiting_tells_the_other_end() -> None:
    async with connected() as (peer, road, _):
        asked = asyncio.create_task(peer.call("session/request_permission", {}))
        (sent,) = await road.until(1)
        asked.cancel()
        cancelled = (await road.until(2))[1]
        road.feed({"jsonrpc": "2.0", "id": sent["id"], "result": "too late"})
    assert cancelled == notification("$/cancel_request", requestId=sent["id"])


async def test_when_the_other_end_goes_nobody_waits_any_more() -> None:
    async with connected() as (peer, road, handler):
        road.feed(request(1, "wait"))
        await handler.began.wait()
        asked = asyncio.create_task(peer.call("fs/read_text_file", {}))
        await road.until(1)
    with pytest.raises(PeerDisconnected):
        await asked
    assert [message["id"] for message in road.sent if "error" in message] == [1]
    with pytest.raises(PeerDisconnected):
        await peer.call("again")


async def test_what_was_asked_right_before_the_end_is_answered() -> None:
    road, handler = Road(), Handler()
    road.feed(request(1, "echo"), request(2, "echo", sessionId="a"))
    road.incoming.put_nowait(None)
    await Peer(road, handler).run()
    assert {message["id"]: message.get("result") for message in road.sent} == {1: {}, 2: {"sessionId": "a"}}


async def test_an_error_answer_is_raised_with_its_code() -> None:
    async with connected() as (peer, road, _):
        asked = asyncio.create_task(peer.call("x"))
        (sent,) = await road.until(1)
        road.feed(
            {"jsonrpc": "2.0", "id": sent["id"], "error": {"code": -32000, "message": "log in", "data": 1}}
        )
        with pytest.raises(RpcError) as refused:
            await asked
    assert (refused.value.code, refused.value.message, refused.value.data) == (-32000, "log in", 1)


async def test_many_lines_leave_in_one_write_and_a_peer_that_does_not_read_holds_the_speaker_up() -> None:
    async with connected() as (peer, road, _):
        road.open.clear()
        for number in range(1000):
            peer.tell("session/update", {"n": number, "text": "x" * 2000})
        waiting = asyncio.create_task(peer.room())
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        road.open.set()
        await waiting
        await peer.flushed()
        assert len(road.writes) <= 3
        assert [message["params"]["n"] for message in road.sent] == list(range(1000))
