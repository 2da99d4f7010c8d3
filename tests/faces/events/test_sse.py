"""Live events as Server-Sent Events, as the browser's EventSource and the SDK read them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from msgspec.structs import replace

from farsteer.faces.events.options import EventLimits
from farsteer.hub import Scope
from tests.faces.events.fake_hub import OTHER_SESSION, SESSION, FakeHub
from tests.faces.events.raw_client import connection
from tests.faces.events.serving import engine, serving
from tests.faces.events.sse_client import subscribed
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow


async def test_everything_once_and_in_order() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (_, url), subscribed(url, fake.tokens.issue()) as stream:
        assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.response.headers["cache-control"] == "no-store"
        name, id, ready = await stream.next()
        assert (name, id, ready["cursor"], ready["resume"]) == ("ready", "e1-0", "e1-0", "none")
        for number in range(0, 600, 3):
            fake.publish(number, number + 1, number + 2)
            await asyncio.sleep(0)
        fake.transient({"text": "a delta"})
        for number in range(600):
            assert await stream.next() == (
                "message", f"e1-{number + 1}",
                {"type": "message-received", "namespace": "default", "sessionId": SESSION,
                 "cursor": f"e1-{number + 1}", "message": number},
            )  # fmt: skip
        name, id, delta = await stream.next()
        assert (name, id, delta["type"]) == ("message", None, "message-delta")


async def test_json_with_line_breaks_stays_one_event() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (_, url), subscribed(url, fake.tokens.issue()) as stream:
        await stream.next()
        (event,) = fake.commit({"a": 1})
        broken = event.data.replace(b'{"a":1}', b'{\r\n\n"a":\n1}')
        fake.feed.publish([replace(event, data=broken)])
        assert (await stream.next())[2]["message"] == {"a": 1}


@pytest.mark.parametrize("cursor", ["e0-3", "e1-11", "nonsense", "9" * 1000])
async def test_a_cursor_the_hub_cannot_serve_is_a_gap(cursor: str) -> None:
    fake = FakeHub()
    fake.publish(*range(10))
    async with (
        serving(fake.hub) as (_, url),
        subscribed(url, fake.tokens.issue(), {"Last-Event-ID": cursor}) as stream,
    ):
        _, id, ready = await stream.next()
        assert (id, ready["cursor"], ready["resume"]) == ("e1-10", "e1-10", "gap")
        fake.publish(10)
        assert await stream.numbers(10) == [10]


@pytest.mark.parametrize("how", ["header", "query", "both"])
async def test_resuming_while_events_are_published(how: str) -> None:
    fake = FakeHub()
    fake.publish(*range(1000))
    numbers = iter(range(1000, 100_000))
    fake.store.before_read = lambda: fake.publish(next(numbers), next(numbers))
    fake.store.after_read = lambda: fake.publish(next(numbers))
    headers = {} if how == "query" else {"Last-Event-ID": "e1-100"}
    query = {"header": {}, "query": {"since": "e1-100"}, "both": {"since": "e1-7"}}[how]
    async with (
        serving(fake.hub) as (_, url),
        subscribed(url, fake.tokens.issue(), headers, **query) as stream,
    ):
        name, id, ready = await stream.next()
        assert (name, id, ready["resume"]) == ("ready", "e1-100", "ok")
        received = await stream.numbers(999)
        last = next(numbers)
        fake.publish(last)
        received += await stream.numbers(last)
        assert received == list(range(100, last + 1))


async def test_filters_and_namespaces() -> None:
    fake = FakeHub()
    types = "session-updated,typing-changed"
    async with (
        serving(fake.hub) as (_, url),
        subscribed(url, fake.tokens.issue(), sessionId=OTHER_SESSION) as session,
        subscribed(url, fake.tokens.issue(), types=types) as typed,
        subscribed(url, fake.tokens.issue("foreign")) as foreign,
    ):
        for stream in (session, typed, foreign):
            await stream.next()
        fake.publish(1)
        fake.publish(2, subject=OTHER_SESSION)
        fake.publish({}, type="session-updated")
        fake.publish("theirs", namespace="foreign")
        assert (await session.next())[2]["message"] == 2
        assert (await typed.next())[2]["type"] == "session-updated"
        assert (await foreign.next())[2]["message"] == "theirs"


@pytest.mark.parametrize(
    ("headers", "query", "status", "code"),
    [
        ({}, "", 401, "unauthorized"),
        ({"Authorization": "Bearer wrong"}, "", 401, "unauthorized"),
        ({"Authorization": "Basic VALID"}, "", 401, "unauthorized"),
        ({"Authorization": "Bearer EXPIRED"}, "", 401, "token_expired"),
        ({"Authorization": "Bearer WRITER"}, "", 403, "forbidden"),
        ({}, "token=VALID", 401, "unauthorized"),
        ({"Authorization": "Bearer VALID"}, "token=VALID", 400, "unknown_field"),
        ({"Authorization": "Bearer VALID"}, "sessionId=../x", 400, "invalid_id"),
        ({"Authorization": "Bearer VALID"}, "types=nonsense", 400, "bad_request"),
        ({"Authorization": "Bearer VALID"}, "since=" + "9" * 200, 400, "bad_request"),
    ],
    ids=str,
)
async def test_a_refusal_says_why(headers: dict[str, str], query: str, status: int, code: str) -> None:
    fake = FakeHub()
    tokens = {
        "VALID": fake.tokens.issue(),
        "EXPIRED": fake.tokens.issue(seconds=-1),
        "WRITER": fake.tokens.issue(scopes={Scope.WRITE}),
    }
    for name, token in tokens.items():
        headers = {key: value.replace(name, token) for key, value in headers.items()}
        query = query.replace(name, token)
    async with serving(fake.hub) as (live_events, url), httpx.AsyncClient(base_url=url) as http:
        answer = await http.get(f"/api/events?{query}", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        answer = await http.post("/api/events", headers=headers)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
        assert len(live_events.subscriptions) == 0


async def test_head_is_not_allowed() -> None:
    fake = FakeHub()
    headers = {"Authorization": f"Bearer {fake.tokens.issue()}"}
    async with serving(fake.hub) as (live_events, url), httpx.AsyncClient(base_url=url) as http:
        answer = await http.head("/api/events", headers=headers)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
        assert len(live_events.subscriptions) == 0


async def test_the_stream_ends_with_its_access_token_and_not_with_its_jwt() -> None:
    fake = FakeHub()
    issued = fake.tokens.issue(seconds=1.5, token_id="a")
    expires_at = fake.tokens.set_expiry("a", seconds=0)
    async with serving(fake.hub) as (live_events, url), subscribed(url, issued) as stream:
        assert (await stream.next())[2]["expiresAt"] == expires_at
        await eventually(lambda: fake.tokens.has_expired(issued))
        fake.publish(1)
        assert await stream.numbers(1) == [1]
        fake.tokens.revoke("a")
        name, _, closed = await stream.next()
        assert (name, closed["code"]) == ("closed", "token_expired")
        with pytest.raises(EOFError):
            await stream.next()
        assert len(live_events.subscriptions) == 0
        assert fake.presence.online == {}


async def test_a_revoked_token_ends_its_streams_at_once() -> None:
    fake = FakeHub()
    async with (
        serving(fake.hub) as (_, url),
        subscribed(url, fake.tokens.issue(token_id="a")) as stream,
        subscribed(url, fake.tokens.issue(token_id="b")) as other,
    ):
        await stream.next()
        await other.next()
        fake.tokens.revoke("a")
        assert (await stream.next())[0] == "closed"
        fake.publish(1)
        assert await other.numbers(1) == [1]


async def test_an_idle_stream_has_a_heartbeat() -> None:
    fake = FakeHub()
    limits = EventLimits(heartbeat_interval=0.05)
    async with serving(fake.hub, limits) as (live_events, url):
        async with (
            subscribed(url, fake.tokens.issue()) as first,
            subscribed(url, fake.tokens.issue()) as second,
        ):
            for stream in (first, second):
                await stream.next()
            await asyncio.sleep(0.2)
            fake.publish(1)
            for stream in (first, second):
                await stream.next()
                assert stream.comments >= 2
        await eventually(lambda: live_events.sse._heartbeat_timer is None)


@asynccontextmanager
async def raw_stream(
    url: str, token: str, more: str = ""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with connection(url) as (reader, writer):
        head = (
            f"GET /api/events HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nAuthorization: Bearer {token}\r\n"
        )
        writer.write(f"{head}{more}\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await reader.readuntil(b"event: ready")
        yield reader, writer


async def test_a_client_that_stops_reading_is_aborted_and_resumes_while_others_continue() -> None:
    fake = FakeHub()
    token = fake.tokens.issue()
    limits = EventLimits(soft_limit=32 * 1024, hard_limit=256 * 1024)
    text = "x" * 1000
    async with serving(fake.hub, limits) as (live_events, url), subscribed(url, token) as other:
        await other.next()
        async with raw_stream(url, token) as (reader, _):
            count = 0
            while fake.metrics.clients_cut == 0:
                fake.publish([count, text], [count + 1, text])
                count += 2
                await asyncio.sleep(0)
                assert count < 5000
            fake.publish([count, text])
            rest = b""
            try:
                while chunk := await reader.read(100_000):
                    rest += chunk
            except ConnectionError:
                pass
            whole = rest[: rest.rindex(b"\r\n")]
            cursor = whole[: whole.rindex(b"\ndata: ")].rpartition(b"id: ")[2].decode()
        await eventually(lambda: len(live_events.subscriptions) == 1)
        assert len(live_events.sse._streams) == 1
        received = [(await other.next())[2]["message"][0] for _ in range(count + 1)]
        assert received == list(range(count + 1))
        # The last event may be incomplete, so resume before it.
        at = int(cursor.removeprefix("e1-")) - 1
        async with subscribed(url, token, {"Last-Event-ID": f"e1-{at}"}) as again:
            assert (await again.next())[2]["resume"] == "ok"
            numbers = [(await again.next())[2]["message"][0] for _ in range(count + 1 - at)]
            assert numbers == list(range(at, count + 1))


async def test_deltas_are_dropped_and_states_kept_for_a_client_that_is_behind() -> None:
    fake = FakeHub()
    token = fake.tokens.issue()
    async with (
        serving(fake.hub, EventLimits(soft_limit=16 * 1024)) as (live_events, url),
        raw_stream(url, token) as (reader, _),
    ):
        (stream,) = live_events.sse._streams
        fake.publish(*(["x" * 1000] for _ in range(500)))
        await eventually(lambda: stream.is_behind)
        for number in range(50):
            fake.transient({"text": f"delta {number}"})
            fake.transient([number], type="online-users-changed", subject=None, merge_key="users")
            await asyncio.sleep(0)
        fake.publish("stored")
        received = b""
        async with asyncio.timeout(10):
            while b'"users":[49]' not in received:
                received += await reader.read(100_000)
        assert b"message-delta" not in received
        assert received.count(b"online-users-changed") == 1
        assert b'"message":"stored"' in received
        fake.transient({"text": "live again"})
        async with asyncio.timeout(10):
            while b"live again" not in received:
                received += await reader.read(100_000)


async def test_two_hundred_closed_streams_leave_no_state_behind() -> None:
    fake = FakeHub()
    fake.publish(*range(100))
    token = fake.tokens.issue()
    # The server no longer reads from a client that has pipelined a request; the heartbeat notices that it is gone.
    async with serving(fake.hub, EventLimits(heartbeat_interval=0.1)) as (live_events, url):
        tasks = len(asyncio.all_tasks())
        for number in range(200):
            more = "Last-Event-ID: e1-3\r\n" if number % 2 else ""
            async with raw_stream(url, token, more) as (_, writer):
                if number % 3 == 0:
                    writer.write(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                    await writer.drain()
        await eventually(lambda: len(live_events.subscriptions) == 0 and not live_events.sse._streams)
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
        assert fake.metrics.clients == 0
        assert fake.presence.online == {}
        assert len(live_events.subscriptions._fanout) == 0


async def test_open_streams_and_polls_do_not_delay_the_shutdown() -> None:
    fake = FakeHub()
    token = fake.tokens.issue()
    loop = asyncio.get_running_loop()
    async with serving(fake.hub) as (live_events, url):
        stream = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        poll = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        async with httpx.AsyncClient(base_url=url) as http:
            path = "/socket.io/?EIO=4&transport=polling"
            path += "&sid=" + json.loads((await http.get(path)).text[1:])["sid"]
            await http.post(path, content=f"40/events,{json.dumps({'token': token})}")
            await http.get(path)
        stream[1].write(
            f"GET /api/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        await stream[0].readuntil(b"event: ready")
        poll[1].write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        (client,) = engine(live_events).connections.values()
        await eventually(lambda: client.queue.is_idle)
        assert fake.metrics.clients == 2
        started = loop.time()
    assert loop.time() - started < 2
    assert b'event: closed\ndata: {"code":"unavailable"' in await stream[0].read()
    await poll[0].read()
    for _, writer in (stream, poll):
        writer.close()
