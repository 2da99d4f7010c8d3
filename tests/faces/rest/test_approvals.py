"""Approvals over the API: the inbox of all sessions, and one answer each."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.droid_simulator import install
from tests.support.stack import Account, Stack


async def waiting(stack: Stack, owner: Account, text: str) -> tuple[str, dict[str, Any]]:
    """Return a session whose turn waits for an approval, and the approval."""
    session_id = await stack.create(owner)
    await owner.say(session_id, text)
    session = await owner.until(session_id, "waiting")
    assert session["pendingRequestsCount"] == 1
    return session_id, session["approvals"][0]


def address(session_id: str, approval: dict[str, Any], verb: str) -> str:
    return f"/api/sessions/{session_id}/permissions/{approval['id']}/{verb}"


def wrote_notes(stack: Stack) -> bool:
    return Path(stack.directory(), "notes.txt").exists()


async def answers(owner: Account, session_id: str) -> list[str]:
    await owner.until(session_id, "idle")
    log = await owner.messages(session_id, limit=200)
    return [entry["content"]["text"] for entry in log if entry["content"]["kind"] == "agent_message"]


async def test_the_inbox_lists_all_sessions(stack: Stack, owner: Account) -> None:
    first, one = await waiting(stack, owner, "run echo one")
    second, two = await waiting(stack, owner, "ask")
    inbox = (await owner.get_json("/api/approvals"))["approvals"]
    assert [(entry["sessionId"], entry["approval"]["id"]) for entry in inbox] == [
        (first, one["id"]),
        (second, two["id"]),
    ]
    assert [entry["approval"]["kind"] for entry in inbox] == ["permission", "question"]


async def test_approve_without_a_body_approves_once(stack: Stack, owner: Account) -> None:
    session_id, approval = await waiting(stack, owner, "write notes.txt hello")
    response = await owner.post(address(session_id, approval, "approve"))
    assert response.status_code == 200
    assert response.json()["outcome"] == "approved"
    await owner.until(session_id, "idle")
    assert wrote_notes(stack)
    assert (await owner.get_json("/api/approvals"))["approvals"] == []


async def test_deny_without_a_body_denies(stack: Stack, owner: Account) -> None:
    session_id, approval = await waiting(stack, owner, "write notes.txt hello")
    response = await owner.post(address(session_id, approval, "deny"))
    assert response.json()["outcome"] == "denied"
    await owner.until(session_id, "idle")
    assert not wrote_notes(stack)


async def test_abort_denies_and_ends_the_turn(stack: Stack, owner: Account) -> None:
    session_id, approval = await waiting(stack, owner, "write notes.txt hello")
    await owner.post_json(address(session_id, approval, "deny"), {"decision": "abort"})
    await owner.until(session_id, "idle")
    log = await owner.messages(session_id, limit=200)
    assert [entry["content"]["reason"] for entry in log if entry["content"]["kind"] == "turn_end"] == [
        "cancelled"
    ]
    assert not wrote_notes(stack)


async def test_the_first_answer_wins_and_the_second_is_refused(stack: Stack, owner: Account) -> None:
    session_id, approval = await waiting(stack, owner, "run echo hello")
    await owner.post_json(address(session_id, approval, "deny"))
    second = await owner.post(address(session_id, approval, "approve"))
    assert second.status_code == 409
    error = second.json()["error"]
    assert error["code"] == "already_answered"
    assert error["details"]["outcome"] == "denied"
    assert error["details"]["by"]


async def test_a_question_is_answered_with_texts(stack: Stack, owner: Account) -> None:
    session_id, approval = await waiting(stack, owner, "ask")
    approve = address(session_id, approval, "approve")
    for wrong in ({}, {"answers": {}}, {"answers": {"colour": ["mauve"]}}, {"answers": {"taste": ["red"]}}):
        refused = await owner.post(approve, json=wrong)
        assert refused.status_code == 400, wrong
    await owner.post_json(approve, {"answers": {"colour": ["green"]}})
    assert "You chose colour: green." in await answers(owner, session_id)


async def test_a_plan_is_answered_with_the_same_endpoint(stack: Stack, owner: Account) -> None:
    session_id, approval = await waiting(stack, owner, "plan")
    assert approval["kind"] == "plan"
    await owner.post_json(address(session_id, approval, "deny"), {"message": "not now"})
    assert "I drop the plan: not now" in await answers(owner, session_id)


async def test_an_option_must_exist_and_match_the_decision(stack: Stack, owner: Account) -> None:
    session_id, approval = await waiting(stack, owner, "run echo hello")
    refused = await owner.post(
        address(session_id, approval, "approve"), json={"optionId": "allow everything"}
    )
    assert refused.status_code == 400
    reject = next(option["id"] for option in approval["options"] if option["kind"].startswith("reject"))
    contradicted = await owner.post(address(session_id, approval, "approve"), json={"optionId": reject})
    assert contradicted.status_code == 400
    assert (await owner.session(session_id))["status"] == "waiting"


async def test_an_unknown_approval_is_not_found(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    for name in ("nothing", "..%2f..", "x" * 200):
        response = await owner.post(f"/api/sessions/{session_id}/permissions/{name}/approve")
        assert response.status_code == 404, name
    too_long = await owner.post(f"/api/sessions/{session_id}/permissions/{'x' * 201}/approve")
    assert too_long.status_code == 400


async def test_every_tool_use_of_one_request_is_in_the_inbox(
    stack: Stack, owner: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))
    session_id = await stack.create(owner, agent="droid")
    await owner.say(session_id, "batch ls | rm -rf notes.txt")
    await owner.until(session_id, "waiting")
    (entry,) = (await owner.get_json("/api/approvals"))["approvals"]
    approval = entry["approval"]
    assert approval["title"] == "2 actions: ls; rm -rf notes.txt"
    assert approval["toolKind"] == "execute"
    assert [call["arguments"]["command"] for call in approval["toolCalls"]] == ["ls", "rm -rf notes.txt"]
    await owner.post_json(address(session_id, approval, "deny"))
