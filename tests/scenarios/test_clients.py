"""Scenarios 86 to 100 of the catalogue: clients that come, go, join and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from farsteer import AsyncClient
from farsteer.client import stream
from farsteer.client.session import AsyncSession
from farsteer.core import events as ev
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.queue import ItemState
from farsteer.faces.app import ServerConfig, serve
from farsteer.hub import Hub
from tests.client.proxy import proxy
from tests.faces.events.clients import python
from tests.faces.events.sse_client import Stream, subscribed
from tests.scenarios import log as read
from tests.support.eventually import eventually
from tests.support.stack import OWNER, Account, Stack, farsteer


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        yield stack


@pytest.fixture
async def me(stack: Stack) -> Account:
    return await stack.sign_in()


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(stack.url, OWNER) as client:
        yield client


@pytest.fixture
async def session(stack: Stack, client: AsyncClient) -> AsyncSession:
    return await client.start(stack.directory(), agent="demo")


def jwt(account: Account) -> str:
    return account.headers["authorization"].removeprefix("Bearer ")


async def begun(session: AsyncSession, text: str) -> str:
    """Send it; the id of its turn, once the agent speaks. Nobody follows it any more then."""
    async with session.turn(text) as turn:
        async for update in turn:
            if update.delta or update.approval:
                break
    assert turn.turn_id is not None
    return turn.turn_id


async def ended(me: Account, session_id: str, count: int = 1) -> list[Any]:
    """The log, once it has that many ends of turns."""

    async def seen() -> bool:
        return len(read.ends(await me.messages(session_id, limit=200))) >= count

    await eventually(seen)
    return await me.messages(session_id, limit=200)


async def heard_until(stream: Stream, kind: str) -> list[Any]:
    """The events of a stream up to the first entry of this kind."""
    found: list[Any] = []
    while True:
        name, _, event = await stream.next()
        if name != "message":
            continue
        found.append(event)
        if event["type"] == "message-received" and event["message"]["content"]["kind"] == kind:
            return found


def entries(events: list[Any]) -> list[Any]:
    return [event["message"] for event in events if event["type"] == "message-received"]


async def test_86_new_chat_and_reconnect(stack: Stack, me: Account, client: AsyncClient) -> None:
    """A new chat is a new session. Who follows that one, from a cursor of the old one's time, hears none of the old."""
    old = await client.start(stack.directory(), agent="demo")
    async with subscribed(stack.url, jwt(me)) as stream:
        cursor = (await stream.next())[2]["cursor"]
        await old.ask("say old")
    new = await client.start(stack.directory(), agent="demo")
    await new.ask("say new")
    for _ in range(2):
        async with subscribed(stack.url, jwt(me), since=cursor, sessionId=new.id) as stream:
            assert (await stream.next())[2]["resume"] == "ok"
            events = await heard_until(stream, "turn_end")
            assert {event["sessionId"] for event in events} == {new.id}
            assert read.answers(entries(events)) == ["new"]
    # Nor does what was cleared come back to who opens the session again.
    await new.clear_messages(keep=1)
    assert read.answers(await me.messages(new.id)) == []
    await new.ask("say newer")
    assert read.answers(await me.messages(new.id)) == ["newer"]


async def test_87_first_message_after_new_chat_is_shown(stack: Stack, me: Account) -> None:
    async with subscribed(stack.url, jwt(me)) as stream:
        await stream.next()
        session = await stack.create(me, prompt="say hello")
        events = [
            event for event in await heard_until(stream, "turn_end") if event.get("sessionId") == session
        ]
    assert events[0]["type"] == "session-added", "told before anything that happens in it"
    told = entries(events)
    assert read.whole(told)
    assert (read.said(told), read.answers(told)) == (["say hello"], ["hello"])


async def test_88_disconnect_does_not_cancel(stack: Stack, me: Account, session: AsyncSession) -> None:
    token = jwt(me)
    async with (
        python(stack.url, "websocket", {"token": token}) as socket,
        subscribed(stack.url, token) as stream,
        AsyncClient(stack.url, OWNER) as other,
        other.events(session.id) as events,
    ):
        await socket.until("ready")
        await begun(session, "slow 10")
        await stream.next()
        await anext(events)
    await eventually(lambda: not stack.hub.metrics.clients)
    log = await ended(me, session.id)
    assert read.ends(log) == ["end_turn"]
    assert read.answers(log)[-1].split()[-1] == "word10"


async def test_89_reconnect_mid_answer(
    stack: Stack, session: AsyncSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text and thinking once, whatever is cut; tests/client/test_with_hub.py does the same with a longer text."""
    monkeypatch.setattr(stream, "FIRST_DELAY", 0.01)
    async with proxy(stack.url) as road, AsyncClient(road.url, OWNER) as far:
        entries: list[ev.Entry] = []
        text, cuts = "", 0
        async with far.attach(session.id).turn("think of a whale and of a dolphin\nslow 10") as turn:
            async for update in turn:
                text += update.text
                if update.entry is not None:
                    entries.append(update.entry)
                if update.delta is not None and cuts < 5:
                    cuts += 1
                    road.cut()
        assert turn.result is not None
        assert cuts >= 2
    assert text.endswith(turn.result.text)
    assert text.count("word10") == 1
    seqs = [entry.seq for entry in entries]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert sum(isinstance(entry.content, ev.AgentThought) for entry in entries) == 1


async def test_90_join_running_session(stack: Stack, me: Account, session: AsyncSession) -> None:
    turn = await begun(session, "slow 1000")
    view = await me.session(session.id)
    assert (view["status"], view["thinking"], view["turnId"]) == ("working", True, turn)
    async with subscribed(stack.url, jwt(me), sessionId=session.id) as stream:
        await stream.next()
        assert (await stream.next())[2]["type"] == "message-delta", "what is being said comes at once"
        await session.abort()
        await heard_until(stream, "turn_end")
    view = await me.session(session.id)
    assert (view["status"], view["thinking"], view["turnId"]) == ("idle", False, None)


async def test_91_two_clients_one_session(stack: Stack, me: Account, session: AsyncSession) -> None:
    async with AsyncExitStack() as opened:
        token = jwt(me)
        socket = await opened.enter_async_context(
            python(stack.url, "websocket", {"token": token, "sessionId": session.id})
        )
        await socket.until("ready")
        async with subscribed(stack.url, token, sessionId=session.id) as stream:
            await stream.next()
            await session.ask("say one")
            first = entries(await heard_until(stream, "turn_end"))
            await begun(session, "slow 5")
        # One has left in the middle of a turn; the other sees it to its end.
        log = await ended(me, session.id, 2)
        await eventually(lambda: len(socket.numbers) > 0 and socket.numbers[-1]["seq"] == log[-1]["seq"])
        assert read.ends(log) == ["end_turn", "end_turn"]
        assert socket.numbers[: len(first)] == first
        assert socket.numbers == log[-len(socket.numbers) :]


async def test_92_close_then_reopen_at_once(me: Account, session: AsyncSession, stack: Stack) -> None:
    turn = await begun(session, "slow 10")
    async with AsyncClient(stack.url, OWNER) as again, again.events(session.id) as events:
        view = await again.session(session.id)
        assert (view.status, view.turn_id) == (SessionStatus.WORKING, turn)
        async for event in events:
            if event.entry is not None and isinstance(event.entry.content, ev.TurnEnd):
                assert event.entry.content.turn_id == turn
                assert event.entry.content.reason is TurnEndReason.END_TURN
                break
    log = await me.messages(session.id, limit=200)
    assert len(read.of(log, "launch_start")) == 1, "the same process all the time"
    assert read.answers(log)[-1].split()[-1] == "word10"


async def test_93_user_message_once(stack: Stack, me: Account, session: AsyncSession) -> None:
    async with subscribed(stack.url, jwt(me), sessionId=session.id) as stream:
        await stream.next()
        # A client that did not hear the answer sends again, several at once and once more when it is done.
        sent = await asyncio.gather(*(session.send("say hello", local_id="bubble") for _ in range(5)))
        heard = entries(await heard_until(stream, "turn_end"))
        await me.until(session.id, "idle")
        late = await session.send("say hello", local_id="bubble")
        assert {accepted.id for accepted in sent} == {late.id}
        assert late.state is ItemState.DELIVERED
        await session.ask("say last")
        heard += entries(await heard_until(stream, "turn_end"))
    bubbles = [entry for entry in heard if entry["content"]["kind"] == "user_message"]
    assert [entry["localId"] == "bubble" for entry in bubbles] == [True, False]
    assert read.said(await me.messages(session.id, limit=200)) == ["say hello", "say last"]


async def test_94_event_of_session_a_never_alters_b(stack: Stack, me: Account, client: AsyncClient) -> None:
    a = await client.start(stack.directory(), agent="demo", title="a")
    b = await client.start(stack.directory(), agent="demo", title="b")
    async with python(stack.url, "websocket", {"token": jwt(me), "sessionId": b.id}) as of_b:
        await of_b.until("ready")
        await begun(b, "ask")
        before = await me.session(b.id)
        # Everything that ends, changes and breaks a session, beside one that works.
        await a.ask("title of a only")
        await a.set_model("demo-1-mini")
        await begun(a, "slow 1000")
        await a.abort()
        await a.send("crash")
        await ended(me, a.id, 3)
        await a.stop()
        await a.delete()
        assert {**await me.session(b.id), "updatedAt": 0} == {**before, "updatedAt": 0}
        [approval] = before["approvals"]
        await b.approve(approval["id"], answers={"colour": ["blue"]})
        log = await ended(me, b.id)
        await eventually(lambda: bool(of_b.numbers) and of_b.numbers[-1]["seq"] == log[-1]["seq"])
        assert {event["sessionId"] for event in of_b.events if "sessionId" in event} == {b.id}
    assert (read.said(log), read.ends(log)) == (["ask"], ["end_turn"])
    assert read.answers(log) == ["You chose colour: blue."]


async def test_95_four_parallel_permissions(stack: Stack, me: Account, session: AsyncSession) -> None:
    """Each is answered by itself, in any order, and only by its own answer; a failed delivery leaves it open.

    The latter alone: tests/hub/services/test_approvals.py, test_an_answer_that_did_not_arrive_leaves_the_approval_open.
    """
    await session.send("several 4")

    async def pending() -> list[Any]:
        return (await me.session(session.id))["approvals"]

    async def four() -> bool:
        return len(await pending()) == 4

    await eventually(four)
    asked = await pending()
    base = f"/api/sessions/{session.id}/permissions"
    wrong = await me.post(f"{base}/{asked[0]['id']}/approve", json={"optionId": "nonsense"})
    assert wrong.status_code == 400
    assert len(await pending()) == 4
    left = [approval["id"] for approval in asked]
    for number, id in enumerate(reversed(left)):
        await me.post_json(f"{base}/{id}/{'deny' if number == 1 else 'approve'}")
        assert id not in [approval["id"] for approval in await pending()]
    log = await ended(me, session.id)
    resolved = {event["approvalId"]: event["outcome"] for event in read.of(log, "approval_resolved")}
    assert list(resolved) == list(reversed(left))
    assert sorted(resolved.values()) == ["approved"] * 3 + ["denied"]
    written = sorted(path.name for path in Path(stack.directory()).glob("several-*"))
    assert len(written) == 3
    assert read.answers(log)[-1] == "3 of 4 files are written."


async def test_96_pending_card_reappears_on_reconnect_disappears_on_process_exit(
    stack: Stack, me: Account, session: AsyncSession
) -> None:
    await begun(session, "write note.txt hello")
    async with AsyncClient(stack.url, OWNER) as again:
        [card] = await again.approvals()
        [shown] = (await again.session(session.id)).approvals
        assert card.approval == shown
        async with subscribed(stack.url, jwt(me), sessionId=session.id) as stream:
            await stream.next()
            [agent] = psutil.Process().children()
            agent.kill()
            told = entries(await heard_until(stream, "turn_end"))
        [resolved] = read.of(told, "approval_resolved")
        assert (resolved["approvalId"], resolved["outcome"]) == (shown.id, "cancelled")
        assert await again.approvals() == []
        assert (await again.session(session.id)).approvals == ()
        answer = await me.post(f"/api/sessions/{session.id}/permissions/{shown.id}/approve")
        assert answer.status_code == 409
    assert not (Path(stack.directory()) / "note.txt").exists(), "no answer never means yes"


async def test_98_switch_to_the_current_session_is_a_no_op_while_streaming(
    me: Account, session: AsyncSession
) -> None:
    turn = await begun(session, "slow 10")
    [agent] = psutil.Process().children()
    await session.resume()
    await session.typing("he")
    await me.get_json(f"/api/sessions/{session.id}/messages")
    await session.resume()
    during = await me.session(session.id)
    assert (during["turnId"], during["status"]) == (turn, "working")
    log = await ended(me, session.id)
    assert read.ends(log) == ["end_turn"]
    assert read.answers(log)[-1].split()[-1] == "word10"
    assert len(read.of(log, "launch_start", "turn_start")) == 2
    assert [child.pid for child in psutil.Process().children()] == [agent.pid]


async def test_99_joining_client_does_not_overwrite_config(
    stack: Stack, me: Account, client: AsyncClient
) -> None:
    """A session's settings are its own: who joins has none to bring, and says nothing by joining."""
    session = await client.start(
        stack.directory(), agent="demo", permission_mode="acceptEdits", model="demo-1-mini", title="mine"
    )
    await session.ask("say hello")

    async def settings() -> tuple[Any, ...]:
        view = await me.session(session.id)
        return view["permissionMode"], view["model"], view["modelReasoningEffort"], view["title"]

    before = await settings()
    async with AsyncClient(stack.url, OWNER) as other:
        joined = other.attach(session.id)
        async with other.events(session.id):
            await joined.typing("hello", client_id="other")
            await joined.resume()
            answer = await joined.ask("model")
        assert await settings() == before
        assert "demo-1-mini" in str(answer)
        assert "acceptEdits" in str(answer)
        # Nor after its process was started for the one who joined.
        await session.stop()
        assert "demo-1-mini" in str(await joined.ask("model"))
    assert await settings() == before
    assert read.of(await me.messages(session.id, limit=200), "mode_update") == []


async def test_100_sidecar_replaced_on_a_reused_port(tmp_path: Path, free_port: int) -> None:
    """Another hub at the same address: what the first one gave out is refused, not misunderstood."""

    async def hub_of(opened: AsyncExitStack, name: str) -> str:
        hub = await Hub.open(tmp_path / name, OWNER)
        opened.push_async_callback(hub.close)
        return await opened.enter_async_context(serve(hub, ServerConfig(port=free_port)))

    async def sign_in(http: httpx.AsyncClient) -> str:
        return (await http.post("/api/auth", json={"accessToken": OWNER})).json()["token"]

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{free_port}") as http:
        async with AsyncExitStack() as opened:
            url = await hub_of(opened, "first")
            old = await sign_in(http)
            async with subscribed(url, old) as stream:
                cursor = (await stream.next())[2]["cursor"]
        async with AsyncExitStack() as opened:
            url = await hub_of(opened, "second")
            refused = await http.get("/api/sessions", headers={"authorization": f"Bearer {old}"})
            assert refused.status_code == 401
            new = await sign_in(http)
            async with subscribed(url, new, {"Last-Event-ID": cursor}) as stream:
                assert (await stream.next())[2]["resume"] == "gap"
        # The first hub again: its own cursor is as good as it was, and so is what it signed.
        async with AsyncExitStack() as opened:
            url = await hub_of(opened, "first")
            async with subscribed(url, old, {"Last-Event-ID": cursor}) as stream:
                assert (await stream.next())[2]["resume"] == "ok"
