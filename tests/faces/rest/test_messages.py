"""Messages over the API: send, list, clear and cancel."""

import base64
from typing import Any

from tests.support.eventually import eventually
from tests.support.stack import Account, Stack


async def test_a_message_is_accepted_answered_and_stored(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    accepted = await owner.post_json(
        f"/api/sessions/{session_id}/messages", {"text": "say hello", "localId": "mine"}, 202
    )
    assert accepted.keys() == {"id", "localId", "state", "position"}
    assert accepted["localId"] == "mine"
    assert accepted["state"] in ("accepted", "queued")
    await owner.until(session_id, "idle")
    log = await owner.messages(session_id, limit=200)
    assert [entry["seq"] for entry in log] == list(range(1, len(log) + 1))
    said = [
        (entry["role"], entry["content"]["text"])
        for entry in log
        if entry["content"]["kind"].endswith("_message")
    ]
    assert said == [("user", "say hello"), ("agent", "hello")]
    mine = next(entry for entry in log if entry["content"]["kind"] == "user_message")
    assert mine["localId"] == "mine"
    assert mine["content"]["itemId"] == accepted["id"]


async def test_the_same_local_id_is_the_same_message(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    first = await owner.say(session_id, "say once", localId="a")
    second = await owner.say(session_id, "say once", localId="a")
    assert first == second
    await owner.until(session_id, "idle")
    third = await owner.say(session_id, "say once", localId="a")
    assert third == first
    log = await owner.messages(session_id, limit=200)
    assert sum(entry["role"] == "user" for entry in log) == 1


async def test_messages_are_paged_by_seq(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    log = await owner.turn(session_id, "say hello")
    last = log[-1]["seq"]
    address = f"/api/sessions/{session_id}/messages"

    newest = await owner.get_json(address, limit=2)
    assert [entry["seq"] for entry in newest["messages"]] == [last - 1, last]
    assert newest["page"]["hasMore"] is True
    assert newest["page"]["limit"] == 2
    older = await owner.get_json(address, limit=2, beforeSeq=newest["page"]["nextBeforeSeq"])
    assert [entry["seq"] for entry in older["messages"]] == [last - 3, last - 2]

    oldest = await owner.get_json(address, limit=2, afterSeq=0)
    assert [entry["seq"] for entry in oldest["messages"]] == [1, 2]
    newer = await owner.get_json(address, limit=200, afterSeq=oldest["page"]["nextAfterSeq"])
    assert [entry["seq"] for entry in newer["messages"]] == list(range(3, last + 1))
    assert newer["page"]["hasMore"] is False
    assert (await owner.get_json(address, afterSeq=last))["messages"] == []


async def test_invalid_page_queries_are_refused(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    for wrong in (
        {"limit": 0},
        {"limit": 201},
        {"limit": "x"},
        {"beforeSeq": -1},
        {"afterSeq": 2**60},
        {"offset": 1},
    ):
        response = await owner.get(f"/api/sessions/{session_id}/messages", params=wrong)
        assert response.status_code == 400, wrong


async def test_invalid_messages_are_refused(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    bad: list[dict[str, Any]] = [
        {},
        {"text": ""},
        {"text": None},
        {"text": "x", "localId": ""},
        {"text": "x" * 1_000_001},
        {"text": "x", "attachments": [{"name": "a", "data": "no base64!"}]},
        {"text": "x", "attachments": [{}]},
    ]
    for wrong in bad:
        response = await owner.post(f"/api/sessions/{session_id}/messages", json=wrong)
        assert response.status_code == 400, str(wrong)[:100]
    assert not [entry for entry in await owner.messages(session_id) if entry["role"] == "user"]


async def test_an_attachment_reaches_the_agent_and_the_log_has_its_size(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    data = base64.b64encode(b"0123456789").decode()
    attachment = {"name": "numbers.txt", "mimeType": "text/plain", "data": data}
    await owner.say(session_id, "say thanks", attachments=[attachment])
    await owner.until(session_id, "idle")
    log = await owner.messages(session_id, limit=200)
    kept = next(entry["content"] for entry in log if entry["role"] == "user")["attachments"]
    assert kept == [{"name": "numbers.txt", "mimeType": "text/plain", "size": 10}]
    assert any(
        "I got numbers.txt" in entry["content"].get("text", "") for entry in log if entry["role"] == "agent"
    )


async def test_a_session_continues_after_its_history_was_cleared(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    log = await owner.turn(session_id, "say hello")
    address = f"/api/sessions/{session_id}/messages"
    kept = await owner.request("DELETE", address, json={"keepCount": 2})
    assert kept.json() == {"cleared": len(log) - 2, "remaining": 2}
    assert await owner.messages(session_id) == log[-2:]
    cleared = await owner.delete(address)
    assert cleared.json() == {"cleared": 2, "remaining": 0}
    assert await owner.messages(session_id) == []
    later = await owner.turn(session_id, "say again")
    assert later[0]["seq"] > log[-1]["seq"]


async def test_a_message_can_be_cancelled_until_the_agent_has_it(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    running = await owner.say(session_id, "slow 10000")
    await owner.until(session_id, "working")
    waiting = await owner.say(session_id, "say never")
    address = f"/api/sessions/{session_id}/queue"

    async def queued() -> bool:
        return waiting in [item["id"] for item in (await owner.get_json(address))["items"]]

    await eventually(queued)
    assert (await owner.delete(f"{address}/{waiting}")).json() == {"ok": True}
    assert not await queued()
    too_late = await owner.delete(f"{address}/{running}")
    assert too_late.status_code == 409
    assert too_late.json()["error"]["code"] == "not_cancellable"
    await owner.post_json(f"/api/sessions/{session_id}/abort")
    await owner.until(session_id, "idle")
    log = await owner.messages(session_id, limit=200)
    assert "say never" not in [entry["content"].get("text") for entry in log if entry["role"] == "user"]
