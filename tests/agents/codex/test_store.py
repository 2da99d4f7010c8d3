"""Stored conversations are listed and read in pages, of a size that fits."""

from __future__ import annotations

from typing import Any

import pytest

from farsteer.agents.codex import store as store_module
from farsteer.agents.codex.store import ThreadStore
from farsteer.core.errors import AgentError, Conflict, ErrorCode
from farsteer.core.events import AgentMessage, UserMessage
from farsteer.core.lines import Oversized
from tests.agents.codex.fake_codex import Answer, FakeCodex, Json, Refused


def page(entries: list[Any], params: Json) -> Json:
    begin = int(params.get("cursor") or 0)
    end = begin + params["limit"]
    return {"data": entries[begin:end], "nextCursor": str(end) if end < len(entries) else None}


def entry(number: int) -> Json:
    kind = {"type": "agentMessage", "id": f"m{number}", "text": str(number)}
    return {"turnId": f"t{number}", "item": kind}


def opened(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> tuple[ThreadStore, FakeCodex]:
    codex = FakeCodex(lambda method, params: {} if method == "initialize" else answer(method, params))
    monkeypatch.setattr(store_module, "AgentProcess", codex)
    return ThreadStore(("codex",), {"HOME": "/"}), codex


async def test_a_long_conversation_is_read_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(method: str, params: Json) -> Any:
        if method == "thread/read":
            return {"thread": {"id": "t", "cwd": "/w", "historyMode": "paginated", "preview": "a\nb"}}
        return page([entry(number) for number in range(120)], params)

    store, codex = opened(monkeypatch, answer)
    async with store:
        conversation, events = await store.read("t")
    assert [event.text for event in events if isinstance(event, AgentMessage)] == [*map(str, range(120))]
    assert (conversation.messages, conversation.title) == (120, "a b")
    assert sum(method == "thread/items/list" for method, _ in codex.requests) == 3


async def test_a_page_that_does_not_fit_into_a_line_is_asked_for_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(method: str, params: Json) -> Any:
        if method == "thread/read":
            return {"thread": {"id": "t", "historyMode": "paginated"}}
        if params["limit"] > 5:
            raise Refused(line=Oversized(size=99_000_000, head=b"{"))
        return page([entry(number) for number in range(7)], params)

    store, _ = opened(monkeypatch, answer)
    async with store:
        assert len((await store.read("t"))[1]) == 7


async def test_an_item_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(method: str, params: Json) -> Any:
        if method == "thread/read":
            return {"thread": {"id": "t"}}
        raise Refused(line=Oversized(size=99_000_000, head=b"{"))

    store, _ = opened(monkeypatch, answer)
    async with store:
        with pytest.raises(AgentError) as caught:
            await store.read("t")
    assert caught.value.code is ErrorCode.TOO_LARGE


async def test_older_threads_are_paged_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    item = {"type": "userMessage", "id": "u", "content": [{"type": "text", "text": "hi"}]}
    unknown = {"type": "newItem", "id": "x"}

    def answer(method: str, params: Json) -> Any:
        if method == "thread/read":
            return {"thread": {"id": "t", "historyMode": "legacy"}}
        assert method == "thread/turns/list"
        return page([{"id": f"t{number}", "items": [item, unknown]} for number in range(12)], params)

    store, _ = opened(monkeypatch, answer)
    async with store:
        _, events = await store.read("t")
    assert len(events) == 12
    assert all(isinstance(event, UserMessage) for event in events)


async def test_conversations_are_listed_up_to_the_limit_and_without_temporary_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = [{"id": f"t{number}", "cwd": "/w", "ephemeral": number == 0} for number in range(300)]
    store, codex = opened(monkeypatch, lambda _, params: page(threads, params))
    async with store:
        found = await store.list("/w", 150)
        assert [one.native_id for one in found] == [f"t{number}" for number in range(1, 151)]
    assert {params["cwd"] for method, params in codex.requests if method == "thread/list"} == {"/w"}


@pytest.mark.parametrize("words", ["thread not found: t", "no rollout found for thread id t"])
async def test_a_missing_thread_is_told_and_deleting_it_is_no_error(
    monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    def answer(method: str, params: Json) -> Any:
        raise Refused({"code": -32600, "message": words})

    store, _ = opened(monkeypatch, answer)
    async with store:
        with pytest.raises(AgentError) as caught:
            await store.read("t")
        assert caught.value.code is ErrorCode.CONVERSATION_MISSING
        await store.delete("t")


async def test_a_thread_with_forks_cannot_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(method: str, params: Json) -> Any:
        raise Refused({"code": -32600, "message": "it owns forked history"})

    store, _ = opened(monkeypatch, answer)
    async with store:
        with pytest.raises(Conflict):
            await store.delete("t")


async def test_a_process_that_dies_fails_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(method: str, params: Json) -> Any:
        codex.die(1)

    store, codex = opened(monkeypatch, answer)
    async with store:
        with pytest.raises(AgentError) as caught:
            await store.list(None, 10)
    assert caught.value.code is ErrorCode.AGENT_DIED
