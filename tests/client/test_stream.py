"""A live stream survives lost connections: no event is missed or repeated, and a gap is reported."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.client import AsyncClient, Gap, LiveEvent, stream
from farsteer.client.stream import SseEvent, SseParser
from farsteer.core import errors
from farsteer.core.events import AgentMessage, Other
from tests.client.fake_hub import URL, FakeHub, error

CUT = httpx.ReadError("cut")


def ready(cursor: str, resume: str = "ok") -> bytes:
    return f'event: ready\ndata: {{"cursor":"{cursor}","resume":"{resume}"}}\n\n'.encode()


def sync(number: int, **more: object) -> bytes:
    cursor = f"e-{number}"
    body = json.dumps(
        {"type": "session-updated", "namespace": "d", "sessionId": "s", "cursor": cursor, **more}
    )
    return f"id: {cursor}\ndata: {body}\n\n".encode()


def message(number: int, content: dict[str, object]) -> bytes:
    entry = {"id": f"m{number}", "seq": number, "role": "agent", "createdAt": 1, "content": content}
    return sync(number, type="message-received", message=entry)


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
def client(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> AsyncClient:
    monkeypatch.setattr(stream, "FIRST_DELAY", 0.0)
    return AsyncClient(URL, "secret", transport=hub)


async def take(events: stream.EventStream, count: int) -> list[LiveEvent]:
    return [await anext(events) for _ in range(count)]


def resumed_from(hub: FakeHub) -> list[str | None]:
    return [request.headers.get("Last-Event-ID") for request in hub.requests]


async def test_it_resumes_after_the_last_returned_event(hub: FakeHub, client: AsyncClient) -> None:
    half = len(sync(3)) // 2
    hub.stream(ready("e-0") + sync(1), sync(2), sync(3)[:half], CUT)
    hub.stream(ready("e-2"), sync(3), sync(4))
    hub.stream(ready("e-4"), sync(5))
    events = client.events()
    assert [event.cursor for event in await take(events, 5)] == [f"e-{n}" for n in range(1, 6)]
    assert resumed_from(hub) == [None, "e-2", "e-4"]


async def test_before_the_first_event_it_resumes_from_where_it_began(
    hub: FakeHub, client: AsyncClient
) -> None:
    hub.stream(ready("e-7"), CUT)
    hub.stream(ready("e-7"), sync(8))
    assert (await anext(client.events())).cursor == "e-8"
    assert resumed_from(hub) == [None, "e-7"]


async def test_a_silent_connection_is_replaced(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("e-0"), b": beat\n\n", httpx.ReadTimeout("45 s of nothing"))
    hub.stream(ready("e-0"), sync(1))
    assert (await anext(client.events())).cursor == "e-1"
    assert hub.requests[0].extensions["timeout"]["read"] == 45.0


class Paced(httpx.AsyncByteStream):
    """A response body whose second part comes when it is told to."""

    def __init__(self, first: bytes, second: bytes) -> None:
        self.parts = first, second
        self.go_on = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.parts[0]
        await self.go_on.wait()
        yield self.parts[1]
        await asyncio.Event().wait()


async def test_a_timeout_leaves_the_connection_as_it_is(hub: FakeHub, client: AsyncClient) -> None:
    body = Paced(ready("e-0"), sync(1))
    hub.script(httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=body))
    async with client.events(timeout=0.02) as events:
        for _ in range(3):
            with pytest.raises(errors.TimedOut, match=r"within 0\.02 s"):
                await anext(events)
        body.go_on.set()
        assert (await anext(events)).cursor == "e-1"
        with pytest.raises(errors.TimedOut):
            await anext(events)
    assert len(hub.requests) == 1
    assert [event async for event in events] == []


async def test_a_gap_is_an_event_of_its_own(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("f-9", "gap"), sync(10))
    events = client.events(since="e-1")
    gap, event = await take(events, 2)
    assert isinstance(gap, Gap)
    assert gap.cursor == "f-9"
    assert event.cursor == "e-10"
    assert resumed_from(hub) == ["e-1"]


async def test_a_gap_is_reported_once(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("f-9", "gap"), CUT)
    hub.stream(ready("f-9"), sync(10))
    events = client.events(since="e-1")
    await take(events, 2)
    assert resumed_from(hub) == ["e-1", "f-9"]


async def test_the_server_applies_the_filters(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("e-0"), sync(1))
    await anext(client.events("s-1", types=["message-received", "message-delta"]))
    query = dict(hub.requests[0].url.params)
    assert query == {"sessionId": "s-1", "types": "message-received,message-delta"}


async def test_typed_entries_and_deltas_and_what_is_unknown(hub: FakeHub, client: AsyncClient) -> None:
    delta = {"messageId": "m", "kind": "agent_message", "text": "hi", "offset": 3}
    hub.stream(
        ready("e-0"),
        message(1, {"kind": "agent_message", "messageId": "m", "text": "hello"}),
        message(2, {"kind": "invented_later", "x": 1}),
        b"data: "
        + json.dumps({"type": "message-delta", "namespace": "d", "sessionId": "s", "delta": delta}).encode()
        + b"\n\n",
        b'data: {"type":"group-message","groupId":"g","groupMessage":{"a":1}}\n\n',
        b'data: {"type":"typing-changed","sessionId":"s","typing":{"invented":"later"}}\n\n',
    )
    message_event, other, delta_event, group, typing = await take(client.events(), 5)
    assert message_event.entry is not None
    assert message_event.entry.content == AgentMessage(message_id="m", text="hello")
    assert other.entry is not None
    assert isinstance(other.entry.content, Other)
    assert other.entry.content.native_kind == "invented_later"
    assert delta_event.delta is not None
    assert (delta_event.delta.text, delta_event.delta.offset, delta_event.cursor) == ("hi", 3, None)
    assert group.type == "group-message"
    assert group.raw["groupMessage"] == {"a": 1}
    assert (typing.content, typing.session_id, typing.raw["typing"]) == (None, "s", {"invented": "later"})


async def test_an_event_of_another_shape_is_kept_raw(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("e-0"), b'id: e-1\ndata: {"type":"session-updated","cursor":[1]}\n\n', sync(2))
    unknown, event = await take(client.events(), 2)
    assert (unknown.type, unknown.cursor, unknown.raw["cursor"]) == ("unknown", "e-1", [1])
    assert event.cursor == "e-2"


async def test_named_events_about_the_stream_are_not_returned(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("e-0"), sync(1), b'event: closed\ndata: {"code":"token_expired"}\n\n')
    hub.stream(ready("e-1"), sync(2))
    assert [event.cursor for event in await take(client.events(), 2)] == ["e-1", "e-2"]


async def test_a_too_large_event_ends_the_connection(
    hub: FakeHub, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SseParser", lambda: SseParser(limit=1000))
    hub.stream(ready("e-0"), b"data: " + b"x" * 2000)
    events = client.events()
    with pytest.raises(errors.TooLarge):
        await anext(events)
    assert not events.connected


async def test_a_delta_does_not_move_the_cursor(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("e-0"), sync(1), b'data: {"type":"message-delta"}\n\n', CUT)
    hub.stream(ready("e-1"), sync(2))
    await take(client.events(), 3)
    assert resumed_from(hub) == [None, "e-1"]


async def test_an_expired_jwt_is_renewed_and_a_wrong_token_raises(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(error(401, "token_expired"))
    hub.stream(ready("e-0"), sync(1))
    events = client.events()
    assert (await anext(events)).cursor == "e-1"
    hub.script(error(401, "unauthorized"), error(401, "unauthorized"))
    with pytest.raises(errors.Unauthorized):
        await anext(events)


async def test_a_hub_that_restarts_is_waited_for(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("e-0"), sync(1), CUT)
    hub.script(
        *[httpx.ConnectError("refused")] * 7, httpx.Response(502, text="proxy"), error(503, "unavailable")
    )
    hub.stream(ready("e-1"), sync(2))
    assert [event.cursor for event in await take(client.events(), 2)] == ["e-1", "e-2"]


async def test_a_hub_that_was_away_for_days_is_still_waited_for(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("e-0"), sync(1))
    events = client.events()
    events._failures = 10_000
    assert (await anext(events)).cursor == "e-1"


async def test_a_hub_that_was_never_there_is_an_error(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(*[httpx.ConnectError("refused")] * 3)
    with pytest.raises(errors.Unavailable, match="no hub at"):
        await anext(client.events())


async def test_reconnecting_ends_after_its_timeout(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("e-0"), sync(1), CUT)
    hub.script(httpx.ConnectError("refused"))
    events = client.events(reconnect_timeout=0.0)
    await anext(events)
    with pytest.raises(errors.Unavailable):
        await anext(events)


async def test_entering_it_means_being_subscribed(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(b": hello\n\n", ready("e-5"), sync(6))
    async with client.events() as events:
        assert len(hub.requests) == 1
        assert events.cursor == "e-5"
        assert (await anext(events)).cursor == "e-6"
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_closing_the_client_ends_its_streams(hub: FakeHub, client: AsyncClient) -> None:
    hub.stream(ready("e-0"), sync(1))
    events = client.events()
    await anext(events)
    await client.aclose()
    assert [event async for event in events] == []


WIRE = (
    b": hello\n\n"
    b'event: ready\ndata: {"cursor":"e-1"}\n\n'
    b'id: e-2\ndata: {"type":"a"}\n\n'
    b": heartbeat\n\n"
    b"data: one\r\ndata: two\r\nid: e-3\r\n\r\n"
    b"data:tight\n\n"
    b"retry: 3\nunknown: x\n\n"
    b"data: unfinished\n"
)
EVENTS = [
    SseEvent("ready", b'{"cursor":"e-1"}', None),
    SseEvent("message", b'{"type":"a"}', "e-2"),
    SseEvent("message", b"one\ntwo", "e-3"),
    SseEvent("message", b"tight", None),
]


@given(st.lists(st.integers(0, len(WIRE)), max_size=20))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    parser = SseParser()
    marks = [0, *sorted(cuts), len(WIRE)]
    pieces = [WIRE[a:b] for a, b in pairwise(marks)]
    assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


def test_a_too_large_event_is_refused() -> None:
    parser = SseParser(limit=1000)
    parser.feed(b"data: " + b"x" * 900)
    with pytest.raises(errors.TooLarge):
        parser.feed(b"x" * 200)


def test_too_many_lines_of_one_event_are_refused() -> None:
    parser = SseParser(limit=1000)
    for _ in range(50):
        parser.feed(b"data: " + b"x" * 19 + b"\n")
    with pytest.raises(errors.TooLarge):
        parser.feed(b"data: " + b"x" * 50 + b"\n")


def test_the_limit_is_per_event() -> None:
    parser = SseParser(limit=1000)
    for _ in range(100):
        assert len(parser.feed(b"data: " + b"x" * 900 + b"\n\n: beat\n\n")) == 1
