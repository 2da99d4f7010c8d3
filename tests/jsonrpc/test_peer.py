"""The JSON-RPC peer: order within a session, exactly one response per request, backpressure."""

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
from farsteer.jsonrpc.messages import RpcRequest
from farsteer.jsonrpc.peer import Peer
from tests.support.eventually import eventually

SECONDS = 5.0


class MemoryTransport:
    """Incoming data is put into a queue; each write is recorded as it was made."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.writes: list[bytes] = []
        self.written = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()

    async def batches(self) -> AsyncIterator[list[Line]]:
        while (data := await self.incoming.get()) is not None:
            yield list(data.splitlines())

    async def write(self, data: bytes) -> None:
        await self.writable.wait()
        self.writes.append(data)
        self.written.set()

    def feed(self, *messages: Any) -> None:
        self.incoming.put_nowait(b"\n".join(json.dumps(message).encode() for message in messages))

    @property
    def sent(self) -> list[Any]:
        return [json.loads(line) for data in self.writes for line in data.splitlines()]

    async def wait_for(self, count: int) -> list[Any]:
        async with asyncio.timeout(SECONDS):
            while len(self.sent) < count:
                self.written.clear()
                await self.written.wait()
        return self.sent


class Handler:
    """Does what the method name says, and records what it received."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.release = asyncio.Event()
        self.started = asyncio.Event()

    async def handle_request(self, method: str, params: Any) -> Any:
        self.received.append((method, params))
        match method:
            case "echo":
                return params
            case "wait":
                self.started.set()
                await self.release.wait()
                return "done"
            case "refuse":
                raise NotFound("no such session")
            case "fail":
                raise ValueError("a secret")
            case _:
                raise unknown_method(method)

    async def handle_notification(self, method: str, params: Any) -> None:
        if method == "slow":
            await self.release.wait()
        self.received.append((method, params))


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Peer, MemoryTransport, Handler]]:
    transport, handler = MemoryTransport(), Handler()
    peer = Peer(transport, handler)
    running = asyncio.create_task(peer.run())
    async with asyncio.timeout(SECONDS):
        yield peer, transport, handler
        transport.incoming.put_nowait(None)
        await running
    assert peer.task_count == 0


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def test_a_request_is_answered_with_its_id_and_unknown_fields_are_kept() -> None:
    async with connected() as (_, transport, _):
        strange = {"sessionUpdate": "never_seen", "_meta": {"cwd": "/evil"}, "n": [1, None]}
        transport.feed(request("a", "echo", **strange), request(7, "echo"), request(None, "echo"))
        sent = await transport.wait_for(3)
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
async def test_an_invalid_message_or_a_failed_request_is_answered_with_an_error(
    line: bytes, code: int, id: Any
) -> None:
    async with connected() as (_, transport, _):
        transport.incoming.put_nowait(line)
        transport.feed(request("next", "echo"))
        sent = {message["id"]: message for message in await transport.wait_for(2)}
    assert sent[id]["error"]["code"] == code
    assert "secret" not in json.dumps(sent[id])
    assert sent["next"]["result"] == {}


async def test_the_messages_of_a_batch_are_handled_one_by_one() -> None:
    async with connected() as (_, transport, _):
        transport.feed([request(1, "echo"), request(2, "echo")])
        assert [message["id"] for message in await transport.wait_for(2)] == [1, 2]


async def test_messages_of_a_session_are_handled_in_order_and_sessions_do_not_wait_for_each_other() -> None:
    async with connected() as (_, transport, handler):
        transport.feed(
            notification("slow", sessionId="a", n=1),
            notification("quick", sessionId="a", n=2),
            request(1, "echo", sessionId="a"),
            request(2, "echo", sessionId="b"),
        )
        assert [message["id"] for message in await transport.wait_for(1)] == [2]
        handler.release.set()
        await transport.wait_for(2)
    assert [params.get("n") for _, params in handler.received if params["sessionId"] == "a"] == [1, 2, None]


async def test_a_long_request_does_not_delay_later_ones() -> None:
    async with connected() as (_, transport, handler):
        transport.feed(request(1, "wait", sessionId="a"), request(2, "echo", sessionId="a"))
        assert [message["id"] for message in await transport.wait_for(1)] == [2]
        handler.release.set()
        assert [message["id"] for message in await transport.wait_for(2)] == [2, 1]


async def test_a_response_is_delivered_after_the_earlier_messages_of_its_session() -> None:
    async with connected() as (peer, transport, handler):
        pending = asyncio.create_task(peer.request("session/load", {}, session_id="a"))
        (sent,) = await transport.wait_for(1)
        transport.feed(
            notification("slow", sessionId="a"), {"jsonrpc": "2.0", "id": sent["id"], "result": {"ok": 1}}
        )
        done, _ = await asyncio.wait([pending], timeout=0.05)
        assert not done
        handler.release.set()
        assert await pending == {"ok": 1}
        assert handler.received == [("slow", {"sessionId": "a"})]


@pytest.mark.parametrize("started", [True, False])
async def test_a_cancelled_request_is_answered_once(started: bool) -> None:
    async with connected() as (_, transport, handler):
        if started:
            transport.feed(request(1, "wait"))
            await handler.started.wait()
            transport.feed(notification("$/cancel_request", requestId=1))
        else:
            transport.feed(request(1, "wait"), notification("$/cancel_request", requestId=1))
        sent = await transport.wait_for(1)
        transport.feed(request(2, "echo"))
        await transport.wait_for(2)
    assert sent[0]["error"]["code"] == -32800
    assert [message["id"] for message in transport.sent] == [1, 2]


async def test_a_duplicate_id_is_refused_and_the_first_request_goes_on() -> None:
    async with connected() as (_, transport, handler):
        transport.feed(request(1, "wait"))
        await handler.started.wait()
        transport.feed(request(1, "echo"))
        assert (await transport.wait_for(1))[0]["error"]["code"] == -32600
        handler.release.set()
        assert (await transport.wait_for(2))[1]["result"] == "done"


async def test_a_request_that_is_cancelled_before_its_first_step_is_answered() -> None:
    async with connected() as (peer, transport, handler):
        peer._receive(RpcRequest("x", "wait", {}))
        # The queue has created the task of the request, which has not run yet.
        await asyncio.sleep(0)
        peer._running_requests["x"].cancel()
        sent = await transport.wait_for(1)
        assert sent[0]["error"]["code"] == -32800
        assert handler.received == []


async def test_reading_pauses_while_too_many_messages_are_unhandled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "_MAX_UNHANDLED", 5)
    async with connected() as (_, transport, handler):
        for number in range(10):
            transport.feed(*(notification("slow", sessionId="a", n=number) for _ in range(5)))
        await eventually(lambda: transport.incoming.qsize() < 10)
        for _ in range(20):
            await asyncio.sleep(0)
        assert transport.incoming.qsize() >= 7
        handler.release.set()
    assert len(handler.received) == 50


async def test_cancelling_a_sent_request_notifies_the_other_side() -> None:
    async with connected() as (peer, transport, _):
        pending = asyncio.create_task(peer.request("session/request_permission", {}))
        (sent,) = await transport.wait_for(1)
        pending.cancel()
        cancelled = (await transport.wait_for(2))[1]
        transport.feed({"jsonrpc": "2.0", "id": sent["id"], "result": "too late"})
    assert cancelled == notification("$/cancel_request", requestId=sent["id"])


async def test_a_closed_connection_fails_the_open_requests_of_both_sides() -> None:
    async with connected() as (peer, transport, handler):
        transport.feed(request(1, "wait"))
        await handler.started.wait()
        pending = asyncio.create_task(peer.request("fs/read_text_file", {}))
        await transport.wait_for(1)
    with pytest.raises(PeerDisconnected):
        await pending
    assert [message["id"] for message in transport.sent if "error" in message] == [1]
    with pytest.raises(PeerDisconnected):
        await peer.request("again")


async def test_requests_sent_right_before_the_end_are_answered() -> None:
    transport, handler = MemoryTransport(), Handler()
    transport.feed(request(1, "echo"), request(2, "echo", sessionId="a"))
    transport.incoming.put_nowait(None)
    await Peer(transport, handler).run()
    assert {message["id"]: message.get("result") for message in transport.sent} == {
        1: {},
        2: {"sessionId": "a"},
    }


@pytest.mark.parametrize("was_starting", [True, False])
async def test_requests_get_more_time_only_if_their_handler_was_still_starting(
    monkeypatch: pytest.MonkeyPatch, was_starting: bool
) -> None:
    monkeypatch.setattr(peer_module, "_FINISH_SECONDS", 0.05)
    transport, handler = MemoryTransport(), Handler()
    transport.feed(request(1, "wait"))
    transport.incoming.put_nowait(None)

    async def wait_until_started() -> bool:
        if was_starting:
            handler.release.set()
        return was_starting

    await Peer(transport, handler).run(wait_until_started)
    (answer,) = transport.sent
    assert answer.get("result") == ("done" if was_starting else None)
    assert ("error" in answer) is not was_starting


async def test_an_error_response_is_raised_with_its_code() -> None:
    async with connected() as (peer, transport, _):
        pending = asyncio.create_task(peer.request("x"))
        (sent,) = await transport.wait_for(1)
        transport.feed(
            {"jsonrpc": "2.0", "id": sent["id"], "error": {"code": -32000, "message": "log in", "data": 1}}
        )
        with pytest.raises(RpcError) as refused:
            await pending
    assert (refused.value.code, refused.value.message, refused.value.data) == (-32000, "log in", 1)


async def test_messages_are_written_together_and_drain_waits_for_a_slow_reader() -> None:
    async with connected() as (peer, transport, _):
        transport.writable.clear()
        for number in range(1000):
            peer.notify("session/update", {"n": number, "text": "x" * 2000})
        waiting = asyncio.create_task(peer.drain())
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        transport.writable.set()
        await waiting
        await peer.flush()
        assert len(transport.writes) <= 3
        assert [message["params"]["n"] for message in transport.sent] == list(range(1000))
