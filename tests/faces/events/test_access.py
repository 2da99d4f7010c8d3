"""Authentication, filters and expiry of Socket.IO connections, with real clients."""

import asyncio
from typing import Any

import pytest
import socketio
from socketio.exceptions import ConnectionError as SocketError

from farsteer.faces.events.options import EventLimits
from farsteer.hub import Caller, Scope
from tests.faces.events.clients import CLIENTS, TRANSPORTS, javascript, python
from tests.faces.events.fake_hub import OTHER_SESSION, SESSION, FakeHub
from tests.faces.events.serving import engine, serving
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("auth", "code"),
    [
        ({}, "unauthorized"),
        ({"token": ""}, "bad_request"),
        ({"token": 5}, "bad_request"),
        ({"token": "wrong"}, "unauthorized"),
        ({"token": "EXPIRED"}, "token_expired"),
        ({"token": "WRITER"}, "forbidden"),
        ({"token": "VALID", "since": 5}, "bad_request"),
        ({"token": "VALID", "since": "x" * 101}, "bad_request"),
        ({"token": "VALID", "sessionId": "../x"}, "invalid_id"),
        ({"token": "VALID", "types": "message-received"}, "bad_request"),
        ({"token": "VALID", "types": ["message-recieved"]}, "bad_request"),
    ],
    ids=str,
)
async def test_a_refusal_says_why(auth: dict[str, Any], code: str) -> None:
    fake = FakeHub()
    tokens = {
        "VALID": fake.tokens.issue(),
        "EXPIRED": fake.tokens.issue(seconds=-1),
        "WRITER": fake.tokens.issue(scopes={Scope.WRITE}),
    }
    if auth.get("token") in tokens:
        auth = {**auth, "token": tokens[auth["token"]]}
    async with serving(fake.hub) as (live_events, url):
        refused: list[Any] = []
        async with asyncio.timeout(5):
            client = socketio.AsyncClient(reconnection=False)
            client.on("connect_error", refused.append, namespace="/events")
            with pytest.raises(SocketError):
                await client.connect(url, auth=auth, namespaces=["/events"], transports=["websocket"])
            await client.disconnect()
        assert refused[0]["data"]["code"] == code
        assert refused[0]["message"]
        assert len(live_events.subscriptions) == 0


async def test_the_javascript_client_receives_the_reason_of_a_refusal() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (_, url), javascript(url, "upgrade", {"token": "wrong"}) as received:
        error = await received.until("connect_error")
        assert error == {"message": "the token is not valid", "data": {"code": "unauthorized"}}


@pytest.mark.parametrize("namespace", ["/", "/admin", "/events/x"])
async def test_other_namespaces_are_refused(namespace: str) -> None:
    fake = FakeHub()
    auth = {"token": fake.tokens.issue()}
    async with serving(fake.hub) as (_, url), javascript(url, "upgrade", auth, namespace) as received:
        error = await received.until("connect_error")
        assert error == {
            "message": "connect to the namespace /events, once", "data": {"code": "not_found"},
        }  # fmt: skip
        assert received.of("connect") == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_event_reaches_all_clients_of_its_namespace_and_no_others(transport: str) -> None:
    fake = FakeHub()
    async with (
        serving(fake.hub) as (_, url),
        python(url, transport, {"token": fake.tokens.issue("one")}) as first,
        python(url, transport, {"token": fake.tokens.issue("one")}) as second,
        python(url, transport, {"token": fake.tokens.issue("two")}) as foreign,
        python(url, transport, {"token": fake.tokens.issue("two"), "since": "e1-0"}) as resumed,
    ):
        for received in (first, second, foreign, resumed):
            await received.until("ready")
        for number in range(50):
            fake.publish(number, namespace="one")
            fake.transient(number, namespace="one")
            fake.publish(-number, namespace="two")
        fake.publish("end", namespace="one")
        fake.publish("end", namespace="two")
        for received in (first, second):
            assert await received.until_number("end") == [*range(50), "end"]
            assert len(received.events) == 101
        for received in (foreign, resumed):
            assert await received.until_number("end") == [*(-number for number in range(50)), "end"]
            assert {event["namespace"] for event in received.events} == {"two"}


async def test_a_client_receives_only_what_its_filter_selects() -> None:
    fake = FakeHub()
    auth = {"token": fake.tokens.issue()}
    async with (
        serving(fake.hub) as (_, url),
        python(url, "websocket", {**auth, "sessionId": SESSION}) as session,
        python(url, "websocket", {**auth, "types": ["session-updated", "typing-changed"]}) as types,
        python(url, "websocket", {**auth, "types": []}) as nothing,
        python(url, "websocket", auth) as everything,
    ):
        for received in (session, types, nothing, everything):
            await received.until("ready")
        for subject in (SESSION, OTHER_SESSION):
            fake.publish("message", subject=subject)
            fake.publish({"title": subject}, type="session-updated", subject=subject)
            fake.transient({"text": "h"}, type="typing-changed", subject=subject)
        fake.publish({"active": True}, type="machine-updated", subject="a-machine")
        fake.transient([], type="online-users-changed", subject=None)
        fake.publish("end")
        await everything.until_number("end")
        await session.until_number("end")
        await types.until("event", 4)
        assert len(everything.events) == 9
        assert [event["type"] for event in session.events] == [
            "message-received", "session-updated", "typing-changed", "message-received",
        ]  # fmt: skip
        assert {event["sessionId"] for event in session.events} == {SESSION}
        assert [event["type"] for event in types.events] == ["session-updated", "typing-changed"] * 2
        assert nothing.events == []


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_the_connection_closes_with_its_access_token_so_that_clients_reconnect(
    client: str, transport: str
) -> None:
    fake = FakeHub()
    expires_at = fake.tokens.set_expiry("a", seconds=0)
    auth = {"token": fake.tokens.issue(token_id="a")}
    limits = EventLimits(close_timeout=0.5)
    async with (
        serving(fake.hub, limits) as (live_events, url),
        CLIENTS[client](url, transport, auth) as received,
    ):
        assert (await received.until("ready"))["expiresAt"] == expires_at
        fake.publish(1)
        await received.until_number(1)
        fake.tokens.revoke("a")
        assert len(live_events.subscriptions) == 0
        assert fake.presence.online == {}
        assert (await received.until("closed"))["code"] == "token_expired"
        await received.until("disconnect")
        fake.publish(2)
        assert received.numbers == [1]
        if client == "javascript":
            # It reconnects by itself, which it does not do after the packet `disconnect`, and is told why it may not.
            assert received.of("disconnect") == ["transport close"]
            assert (await received.until("connect_error"))["data"]["code"] == "unauthorized"
        await eventually(lambda: engine(live_events).connections == {})


async def test_a_connection_outlives_its_jwt() -> None:
    fake = FakeHub()
    issued = fake.tokens.issue(seconds=1.5)
    async with (
        serving(fake.hub) as (_, url),
        python(url, "websocket", {"token": issued}) as received,
    ):
        assert (await received.until("ready"))["expiresAt"] is None
        await eventually(lambda: fake.tokens.has_expired(issued))
        fake.publish(1)
        assert await received.until_number(1) == [1]


async def test_a_token_that_is_revoked_while_its_connection_is_accepted_gets_no_events() -> None:
    fake = FakeHub()
    auth = {"token": fake.tokens.issue(token_id="a")}
    async with serving(fake.hub) as (live_events, url):
        check_room = live_events.subscriptions.check_room

        def revoke_after(caller: Caller) -> None:
            check_room(caller)
            fake.tokens.revoke("a")

        live_events.subscriptions.check_room = revoke_after
        async with python(url, "websocket", auth) as received:
            assert (await received.until("closed"))["code"] == "unauthorized"
            await received.until("disconnect")
            assert received.of("ready") == []


async def test_a_newer_jwt_is_checked_for_clients_that_renew_it() -> None:
    fake = FakeHub()
    issue = fake.tokens.issue
    expires_at = fake.tokens.set_expiry("a", seconds=60)
    given: list[tuple[Any, str | None]] = [
        ({"token": issue(token_id="a")}, None),
        ({"token": issue("other", token_id="a")}, "forbidden"),
        ({"token": issue(token_id="another")}, "forbidden"),
        ({"token": issue(token_id="a", seconds=-5)}, "token_expired"),
        ({"token": issue(token_id="a", scopes={Scope.WRITE})}, "forbidden"),
        ({"token": "wrong"}, "unauthorized"),
        ({"token": 5}, "bad_request"),
        ({}, "bad_request"),
        ("token", "bad_request"),
    ]
    async with (
        serving(fake.hub) as (_, url),
        javascript(url, "websocket", {"token": issue(token_id="a")}) as received,
    ):
        await received.until("ready")
        for count, (value, code) in enumerate(given, 1):
            received.send_command("call", "auth", value)
            answer = await received.until("answer", count)
            if code is None:
                assert answer == {"ok": True, "expiresAt": expires_at}
            else:
                assert (answer["ok"], answer["error"]["code"]) == (False, code)
        received.send_command("call", "auth")
        assert (await received.until("answer", len(given) + 1))["ok"] is False
        fake.publish(1)
        assert await received.until_number(1) == [1]


async def test_a_revoked_token_closes_its_connections_at_once_and_no_others() -> None:
    fake = FakeHub()
    async with (
        serving(fake.hub) as (live_events, url),
        python(url, "websocket", {"token": fake.tokens.issue(token_id="a")}) as first,
        python(url, "polling", {"token": fake.tokens.issue(token_id="a")}) as second,
        python(url, "websocket", {"token": fake.tokens.issue(token_id="b")}) as other,
    ):
        for received in (first, second, other):
            await received.until("ready")
        fake.tokens.revoke("a")
        assert len(live_events.subscriptions) == 1
        for received in (first, second):
            assert (await received.until("closed"))["code"] == "unauthorized"
            await received.until("disconnect")
        fake.publish(1)
        assert await other.until_number(1) == [1]
        assert first.numbers == second.numbers == []


async def test_presence_follows_the_connection() -> None:
    fake = FakeHub()
    async with serving(fake.hub) as (_, url):
        async with python(url, "websocket", {"token": fake.tokens.issue()}) as received:
            await received.until("ready")
            assert len(fake.presence.online) == 1
        await eventually(lambda: not fake.presence.online)
        async with python(url, "polling", {"token": fake.tokens.issue()}) as received:
            await received.until("ready")
            assert len(fake.presence.online) == 1
        await eventually(lambda: not fake.presence.online)
        assert fake.metrics.clients == 0


async def test_disconnected_clients_leave_no_state_behind() -> None:
    fake = FakeHub()
    limits = EventLimits(close_timeout=0.1)
    async with serving(fake.hub, limits) as (live_events, url):
        tasks = len(asyncio.all_tasks())
        token = fake.tokens.issue()
        for number in range(12):
            transport = [*TRANSPORTS][number % 3]
            since = {"since": "e1-0"} if number % 2 else {}
            async with python(url, transport, {"token": token, **since}) as received:
                await received.until("ready")
        server = live_events.socketio
        engineio = engine(live_events)
        await eventually(lambda: not engineio.connections and not engineio.sockets)
        assert not server._subscribers
        assert not server._accepted
        assert not server.server.environ
        assert not server.server.manager.rooms
        assert len(live_events.subscriptions) == 0
        # Only Engine.IO's service task remains.
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks + 2)
