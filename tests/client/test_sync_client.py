"""`Client` has the methods of `AsyncClient` and runs them on an event loop of its own."""

import asyncio
import inspect
import re
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import farsteer
from farsteer.client import AsyncClient, AsyncSession, Client, Session, stream
from farsteer.client.turn import AsyncTurn, TurnEndReason, TurnUpdate
from farsteer.core import errors
from farsteer.core.approvals import Approval
from tests.client.fake_hub import URL, FakeHub
from tests.client.test_stream import ready, sync
from tests.client.test_turn import ASKED, FakeTurnClient, end, ev, says, start


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
def client(hub: FakeHub) -> Iterator[Client]:
    with Client(URL, "secret", transport=hub) as client:
        yield client


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_both_clients_and_both_sessions_have_the_same_methods() -> None:
    assert public(AsyncClient) - {"aclose", "follow"} == public(Client) - {"close"}
    assert public(AsyncSession) == public(Session)
    assert farsteer.Client is Client
    assert farsteer.AsyncClient is AsyncClient


def test_signatures_and_docstrings_are_kept() -> None:
    assert [*inspect.signature(Client.send).parameters] == [*inspect.signature(AsyncClient.send).parameters]
    assert [*inspect.signature(Session.send).parameters] == [
        "self", "text", "attachments", "local_id", "delivery", "timeout",
    ]  # fmt: skip
    assert Session.send.__doc__ == AsyncClient.send.__doc__


@pytest.mark.parametrize("kind", [Client, Session])
def test_signatures_name_no_types_of_asyncio(kind: type) -> None:
    for name in public(kind):
        method = getattr(kind, name)
        written = f"{inspect.signature(method)} {method.__doc__}"
        assert not re.search(r"\b(?:Async\w+|Await\w*|Coroutine|Any|await|coroutine)\b", written), name


@pytest.mark.parametrize("kind", [AsyncClient, AsyncSession, Client, Session])
def test_everything_that_can_block_takes_a_timeout(kind: type) -> None:
    at_once = {"attach", "aclose", "close", "follow"}
    for name in public(kind) - at_once:
        assert "timeout" in inspect.signature(getattr(kind, name)).parameters, name


def test_calls_return_the_answer(hub: FakeHub, client: Client) -> None:
    hub.script(httpx.Response(200, json={"machines": []}))
    assert client.machines() == []


def test_errors_are_raised_unchanged(hub: FakeHub, client: Client) -> None:
    hub.script(httpx.Response(404, json={"error": {"code": "not_found", "message": "no such session"}}))
    with pytest.raises(errors.NotFound, match="no such session"):
        client.session("s")


def test_pages_are_joined(hub: FakeHub, client: Client) -> None:
    def entry(seq: int) -> dict[str, Any]:
        content = {"kind": "agent_message", "messageId": str(seq), "text": str(seq)}
        return {"id": str(seq), "seq": seq, "role": "agent", "createdAt": 0, "content": content}

    def page(seqs: list[int], *, after: int | None = None, before: int | None = None) -> httpx.Response:
        more = after is not None or before is not None
        cursors = {"limit": 2, "beforeSeq": None, "afterSeq": None, "hasMore": more}
        cursors |= {"nextBeforeSeq": before, "nextAfterSeq": after}
        return httpx.Response(200, json={"messages": [entry(seq) for seq in seqs], "page": cursors})

    hub.script(page([1, 2], after=2), page([3]))
    assert [entry.seq for entry in client.messages("s")] == [1, 2, 3]
    hub.script(page([2, 3], before=2), page([1]))
    assert [entry.seq for entry in client.history("s")] == [3, 2, 1]
    queries = [dict(request.url.params) for request in hub.requests]
    assert [query.get("afterSeq") for query in queries] == ["0", "2", None, None]
    assert [query.get("beforeSeq") for query in queries] == [None, None, None, "2"]


def test_events_are_an_iterator(hub: FakeHub, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "FIRST_DELAY", 0.0)
    hub.stream(ready("e-0"), sync(1), sync(2))
    with client.events() as events:
        assert [next(events).cursor, next(events).cursor] == ["e-1", "e-2"]
    assert list(events) == []


def followed(client: Client, monkeypatch: pytest.MonkeyPatch, fake: FakeTurnClient) -> Session:
    for name in ("session", "messages", "send", "answer", "follow"):
        monkeypatch.setattr(client._aio, name, getattr(fake, name))
    return client.attach("s")


def test_a_turn_is_an_iterator_with_a_result(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    session = followed(client, monkeypatch, FakeTurnClient(start(), says("Hello"), end()))
    turn = session.turn("hello")
    assert turn.result is None
    assert "".join(update.text for update in turn) == "Hello"
    assert turn.result is not None
    assert turn.result.reason is TurnEndReason.END_TURN


def test_ask_answers_and_the_callback_runs_in_the_callers_thread(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeTurnClient(start(), ev.ApprovalRequested(approval=ASKED), says("Hello"), end())
    session = followed(client, monkeypatch, fake)
    threads: list[threading.Thread] = []

    def decide(asked: Approval) -> bool:
        threads.append(threading.current_thread())
        return True

    assert str(session.ask("hello", on_approval=decide)) == "Hello"
    assert threads == [threading.main_thread()]
    assert fake.answers == [("a", True)]


def test_ask_without_a_callback_raises_what_the_agent_asks(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeTurnClient(start(), ev.ApprovalRequested(approval=ASKED))
    session = followed(client, monkeypatch, fake)
    with pytest.raises(errors.ApprovalNeeded) as raised:
        session.ask("hello")
    assert raised.value.approval == ASKED
    assert not fake.subscribed
    assert fake.answers == []


def test_an_interrupted_call_is_cancelled(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Event(), threading.Event()

    async def endless(self: AsyncTurn) -> TurnUpdate:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    class Interrupted:
        def __init__(self, future: Any) -> None:
            self.future = future

        def result(self) -> None:
            assert began.wait(5)
            raise KeyboardInterrupt

        def cancel(self) -> None:
            self.future.cancel()

    begin = asyncio.run_coroutine_threadsafe
    monkeypatch.setattr(AsyncTurn, "__anext__", endless)
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", lambda *work: Interrupted(begin(*work)))
    with pytest.raises(KeyboardInterrupt):
        next(client.attach("s").turn("hello"))
    monkeypatch.undo()
    assert ended.wait(5)


def test_a_closed_client_says_so_and_leaves_no_thread(hub: FakeHub) -> None:
    client = Client(URL, "secret", transport=hub)
    client.close()
    client.close()
    with pytest.raises(errors.Conflict, match="closed"):
        client.machines()
    assert not [thread for thread in threading.enumerate() if thread.name == "farsteer-client"]
