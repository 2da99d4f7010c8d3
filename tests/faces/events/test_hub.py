"""Live events of a real hub with its store, tokens and server, also across a restart."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from farsteer.client import AsyncClient
from farsteer.core.api import AuthRequest, NewToken
from farsteer.core.errors import ErrorCode, Unauthorized
from farsteer.core.events import AgentMessage, Delta, DeltaKind
from farsteer.faces.app import ServerConfig, serve
from farsteer.hub import Hub
from tests.faces.events.clients import javascript, python
from tests.faces.events.sse_client import Stream, subscribed
from tests.hub.conftest import create
from tests.hub.scripted import ScriptedRunner, caller, machine
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

OWNER = "an-owner-token-of-a-test"


async def sign_in(hub: Hub, access_token: str = OWNER, **who: Any) -> str:
    return (await hub.tokens.exchange(AuthRequest(access_token=access_token, **who))).token


def said(number: int) -> AgentMessage:
    return AgentMessage(message_id=f"m{number}", text=f"text {number}")


def seqs(events: list[dict[str, Any]]) -> list[int]:
    return [event["message"]["seq"] for event in events if event["type"] == "message-received"]


@asynccontextmanager
async def hub_at(home: Path, port: int = 0) -> AsyncIterator[tuple[Hub, str]]:
    hub = await Hub.open(home, OWNER)
    try:
        async with serve(hub, ServerConfig(port=port)) as url:
            yield hub, url
    finally:
        await hub.close()


async def test_clients_resume_after_a_restart_of_the_hub(home: Path, free_port: int) -> None:
    logs: dict[str, Any] = {}
    info = machine()
    read: list[int] = []

    async def read_until(stream: Stream, seq: int) -> str | None:
        while True:
            _, id, event = await stream.next()
            if event["type"] == "message-received":
                read.append(event["message"]["seq"])
                if read[-1] == seq:
                    return id

    async with AsyncExitStack() as stack:
        async with hub_at(home, free_port) as (hub, url), ScriptedRunner(hub, info=info, logs=logs) as runner:
            session = await create(hub, runner)
            token = await sign_in(hub)
            start = f"{hub.store.epoch}-0"
            auth = {"token": token, "since": start, "follow": True}
            received = await stack.enter_async_context(javascript(url, "upgrade", auth))
            await received.until("ready")
            await runner.append(session, *map(said, range(200)))
            async with subscribed(url, token, since=start) as stream:
                await stream.next()
                cursor = await read_until(stream, 100)
            await received.until("event", 200)
        async with hub_at(home, free_port) as (hub, url), ScriptedRunner(hub, info=info, logs=logs) as runner:
            await runner.append(session, *map(said, range(200, 300)))
            assert (await received.until("ready", 2))["resume"] == "ok"
            await runner.append(session, *map(said, range(300, 400)))
            async with subscribed(url, token, {"Last-Event-ID": str(cursor)}) as stream:
                assert (await stream.next())[2]["resume"] == "ok"
                await read_until(stream, 400)
            assert read == list(range(1, 401))
            while seqs(received.events)[-1] != 400:
                await received.until("event", len(received.events) + 1)
            assert seqs(received.events) == list(range(1, 401))
            cursors = [
                int(event["cursor"].rpartition("-")[2]) for event in received.events if "cursor" in event
            ]
            assert cursors == sorted(set(cursors))


async def test_a_client_receives_the_events_of_a_session(home: Path) -> None:
    async with (
        hub_at(home) as (hub, url),
        ScriptedRunner(hub) as runner,
        ScriptedRunner(hub, "theirs") as foreign,
        python(url, "websocket", {"token": await sign_in(hub)}) as received,
    ):
        await received.until("ready")
        session = await create(hub, runner)
        other = await create(hub, foreign)
        await foreign.append(other, said(1))
        await runner.send_deltas(session, Delta(message_id="m1", kind=DeltaKind.MESSAGE, text="te"))
        await runner.append(session, said(1))
        await hub.sessions.delete(caller(), session)
        while "session-removed" not in {event["type"] for event in received.events}:
            await received.until("event", len(received.events) + 1)
        of_session = [event for event in received.events if event.get("sessionId") == session]
        assert [event["type"] for event in of_session if event["type"] != "session-updated"] == [
            "session-added", "message-delta", "message-received", "session-removed",
        ]  # fmt: skip
        assert {event["namespace"] for event in received.events} == {"default"}


async def test_online_users_receive_the_list_of_online_users(home: Path) -> None:
    def emails(event: dict[str, Any]) -> list[str]:
        return [user["email"] for user in event["users"]]

    async with hub_at(home) as (hub, url):
        anns = await sign_in(hub, email="ann@example.com", client_id="c1", device_type="phone")
        bobs = await sign_in(hub, email="bob@example.com", client_id="c2")
        async with python(url, "websocket", {"token": anns, "types": ["online-users-changed"]}) as ann:
            assert emails(await ann.until("event")) == ["ann@example.com"]
            async with subscribed(url, bobs) as stream:
                await stream.next()
                assert emails(await ann.until("event", 2)) == ["ann@example.com", "bob@example.com"]
                assert emails((await stream.next())[2]) == ["ann@example.com", "bob@example.com"]
            assert emails(await ann.until("event", 3)) == ["ann@example.com"]


async def test_a_minted_token_is_renewed_and_revoked(home: Path) -> None:
    async with hub_at(home) as (hub, url):
        minted = await hub.tokens.create(caller(owner=True), NewToken(label="reader", scopes=["read"]))
        token = await sign_in(hub, minted.secret)
        async with (
            javascript(url, "websocket", {"token": token}) as received,
            subscribed(url, token) as stream,
        ):
            await received.until("ready")
            await stream.next()
            received.send_command("call", "auth", {"token": await sign_in(hub, minted.secret)})
            assert (await received.until("answer"))["ok"] is True
            received.send_command("call", "auth", {"token": await sign_in(hub)})
            assert (await received.until("answer", 2))["error"]["code"] == "forbidden"
            await hub.tokens.revoke(caller(), minted.token.id)
            assert (await received.until("closed"))["code"] == "unauthorized"
            while (await stream.next())[0] != "closed":
                continue
            # The client reconnects by itself and learns that the token is not valid any more.
            assert (await received.until("connect_error"))["data"]["code"] == "unauthorized"


async def test_connections_live_as_long_as_the_access_token_behind_their_jwt(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.hub.auth.tokens.LIFETIME_MS", 3000)
    async with hub_at(home) as (hub, url), ScriptedRunner(hub) as runner:
        session = await create(hub, runner)
        minted = await hub.tokens.create(caller(owner=True), NewToken(label="reader", scopes=["read"]))
        token = await sign_in(hub, minted.secret)
        async with (
            python(url, "websocket", {"token": token, "types": ["message-received"]}) as received,
            subscribed(url, token, types="message-received") as stream,
            AsyncClient(url=url, token=minted.secret) as client,
            client.events(types=["message-received"]) as sdk,
        ):
            assert (await received.until("ready"))["expiresAt"] is None
            assert (await stream.next())[2]["expiresAt"] is None
            await eventually(lambda: _has_expired(hub, token))
            await runner.append(session, said(1))
            assert (await received.until("event"))["message"]["content"]["messageId"] == "m1"
            assert (await stream.next())[2]["message"]["content"]["messageId"] == "m1"
            assert (await anext(sdk)).session_id == session
            assert (received.of("closed"), sdk.connected) == ([], True)
            await hub.tokens.revoke(caller(), minted.token.id)
            assert (await received.until("closed"))["code"] == "unauthorized"
            name, _, closed = await stream.next()
            assert (name, closed["code"]) == ("closed", "unauthorized")
            with pytest.raises(Unauthorized):
                await anext(sdk)


def _has_expired(hub: Hub, token: str) -> bool:
    try:
        hub.tokens.verify(token)
    except Unauthorized as error:
        return error.code is ErrorCode.TOKEN_EXPIRED
    return False
