"""A session is handed over to another agent, which goes on with the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents import registry
from tests.support import other_agents
from tests.support.eventually import eventually
from tests.support.stack import Account, Stack, farsteer

pytestmark = pytest.mark.slow


@pytest.fixture
async def stack(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    monkeypatch.setattr(registry, "_BUILT_IN", {**registry._BUILT_IN, **other_agents.BUILT_IN})
    monkeypatch.setattr(registry, "PREFERENCE", (*registry.PREFERENCE, *other_agents.BUILT_IN))
    async with farsteer(home) as stack:
        yield stack


@pytest.fixture
async def owner(stack: Stack) -> Account:
    return await stack.sign_in()


def said(log: list[Any], kind: str) -> list[str]:
    return [entry["content"]["text"] for entry in log if entry["content"]["kind"] == kind]


async def hand_off(owner: Account, session: str, agent: str, **fields: Any) -> str:
    body = {"agent": agent, **fields}
    return (await owner.post_json(f"/api/sessions/{session}/handoff", body))["sessionId"]


async def test_another_agent_gets_a_digest_with_the_first_message_and_nothing_before(
    stack: Stack, owner: Account
) -> None:
    source = await stack.create(owner, permissionMode="yolo", title="The whale")
    await owner.turn(source, "remember the whale")
    await owner.turn(source, "write whale.txt blue")
    new = await hand_off(owner, source, "other")
    session = await owner.session(new)
    assert (session["agent"], session["status"], session["queue"]) == ("other", "idle", [])
    assert (session["directory"], session["permissionMode"]) == (stack.directory(), "yolo")
    assert session["handedOffFrom"]["sessionId"] == source
    (notice,) = said(await owner.messages(new), "notice")
    for part in (source, "Person: remember the whale", "whale.txt", "with the first message"):
        assert part in notice
    assert said(await owner.messages(new), "user_message") == []
    await owner.shows(source, handedOffTo=[new])
    assert new in said(await owner.messages(source), "notice")[-1]

    log = await owner.turn(new, "/help")
    assert said(log, "user_message") == ["/help"], "a command is passed on as it is"
    log = await owner.turn(new, "say go on")
    digest, last = said(log, "user_message")[-1].rsplit("\n\n", 1)
    assert (last, digest in notice) == ("say go on", True)
    assert said(await owner.turn(new, "say and on"), "user_message")[-1] == "say and on"
    assert (await owner.session(source))["agent"] == "demo"


async def test_a_text_is_the_first_message(stack: Stack, owner: Account) -> None:
    source = await stack.create(owner)
    await owner.turn(source, "say hello")
    new = await hand_off(owner, source, "other", text="say goodbye", title="The rest")
    await owner.until(new, "idle")

    async def is_answered() -> bool:
        return len(said(await owner.messages(new), "user_message")) == 1

    await eventually(is_answered)
    (sent,) = said(await owner.messages(new), "user_message")
    assert sent.endswith("\n\nsay goodbye")
    assert "demo: hello" in sent
    assert (await owner.session(new))["title"] == "The rest"


async def test_an_agent_with_the_same_store_has_the_conversation_itself(stack: Stack, owner: Account) -> None:
    source = await stack.create(owner)
    await owner.turn(source, "remember the dolphin")
    new = await hand_off(owner, source, "sibling")
    log = await owner.messages(new)
    assert said(log, "user_message") == ["remember the dolphin"]
    assert "has the conversation itself" in said(log, "notice")[-1]
    log = await owner.turn(new, "history")
    assert "dolphin" in said(log, "agent_message")[-1]
    assert said(log, "user_message")[-1] == "history"
    session = await owner.session(new)
    assert session["forkedFrom"]["sessionId"] == session["handedOffFrom"]["sessionId"] == source


async def test_a_session_survives_a_restart_between_the_hand_over_and_its_first_message(
    stack: Stack, owner: Account
) -> None:
    source = await stack.create(owner)
    await owner.turn(source, "remember the seal")
    new = await hand_off(owner, source, "other")
    await stack.stop_runner()
    await stack.start_runner()
    log = await owner.turn(new, "say go on")
    assert "Person: remember the seal" in said(log, "user_message")[-1]
    assert (await owner.session(source))["handedOffTo"] == [new]


@pytest.mark.parametrize(
    ("agent", "status", "code"),
    [("demo", 400, "bad_request"), ("nobody", 422, "agent_unknown")],
)
async def test_what_is_refused_leaves_no_session(
    stack: Stack, owner: Account, agent: str, status: int, code: str
) -> None:
    source = await stack.create(owner)
    answer = await owner.post_json(f"/api/sessions/{source}/handoff", {"agent": agent}, status)
    assert answer["logs"][-1]["code"] == code
    assert [one["id"] for one in (await owner.get_json("/api/sessions"))["sessions"]] == [source]
    assert (await owner.session(source))["handedOffTo"] == []


async def test_a_session_that_works_is_not_handed_over(stack: Stack, owner: Account) -> None:
    source = await stack.create(owner)
    await owner.say(source, "hang")
    await owner.until(source, "working")
    answer = await owner.post_json(f"/api/sessions/{source}/handoff", {"agent": "other"}, 409)
    assert answer["logs"][-1]["code"] == "turn_running"
