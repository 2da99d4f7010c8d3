"""Rewind, fork and send-now over the API, with a real runner and the demo agent."""

from typing import Any

from tests.support.eventually import eventually
from tests.support.stack import Account, Stack


def said(log: list[Any], role: str) -> list[str]:
    return [
        entry["content"]["text"]
        for entry in log
        if entry["role"] == role and entry["content"]["kind"].endswith("_message")
    ]


def message(log: list[Any], text: str) -> int:
    """Return the number of a user message."""
    return next(
        entry["seq"]
        for entry in log
        if entry["content"]["kind"] == "user_message" and entry["content"]["text"] == text
    )


async def remembers(account: Account, session_id: str) -> list[str]:
    """Return the conversation as the agent itself has stored it."""
    log = await account.turn(session_id, "history")
    return [line.split(". ", 1)[1] for line in said(log, "agent")[-1].splitlines() if ". " in line]


async def two_turns(stack: Stack, owner: Account) -> str:
    session_id = await stack.create(owner)
    await owner.turn(session_id, "say one")
    await owner.turn(session_id, "say two")
    return session_id


async def test_a_rewound_conversation_continues_before_the_message(stack: Stack, owner: Account) -> None:
    session_id = await two_turns(stack, owner)
    address = f"/api/sessions/{session_id}"
    before = await owner.messages(session_id, limit=200)
    seq = message(before, "say two")
    done = await owner.post_json(f"{address}/rewind", {"seq": seq})
    assert done.keys() == {"seq", "firstSeq", "text", "attachments", "files", "cancelled"}
    assert (done["text"], done["attachments"], done["cancelled"]) == ("say two", [], [])
    assert done["firstSeq"] == seq - 1
    assert done["files"].keys() == {"status", "restored", "skipped", "reason"}

    after = await owner.messages(session_id, limit=200)
    assert after[: seq - 2] == before[: seq - 2]
    assert (after[seq - 2]["seq"], after[seq - 2]["content"]["kind"]) == (done["seq"], "rewound")
    assert (await owner.session(session_id))["lastMessage"] == "one"
    again = await owner.post(f"{address}/rewind", json={"seq": seq})
    assert again.status_code == 404

    assert await remembers(owner, session_id) == ["user: say one", "agent: one"]
    await owner.post_json(f"{address}/rewind", {"seq": message(after, "say one"), "restoreFiles": False})
    assert await remembers(owner, session_id) == []
    log = await owner.messages(session_id, limit=200)
    assert said(log, "user") == ["history"]
    rewound = [entry["content"] for entry in log if entry["content"]["kind"] == "rewound"]
    assert [event["files"]["status"] for event in rewound] == ["skipped"]


async def test_a_rewind_ends_the_turn_and_cancels_queued_messages(stack: Stack, owner: Account) -> None:
    session_id = await two_turns(stack, owner)
    running = await owner.say(session_id, "slow 10000")
    await owner.until(session_id, "working")
    waiting = await owner.say(session_id, "say later")

    async def queued() -> bool:
        items = (await owner.get_json(f"/api/sessions/{session_id}/queue"))["items"]
        return (waiting, "queued") in [(item["id"], item["state"]) for item in items]

    await eventually(queued)
    seq = message(await owner.messages(session_id, limit=200), "slow 10000")
    done = await owner.post_json(f"/api/sessions/{session_id}/rewind", {"seq": seq})
    assert (done["text"], done["cancelled"]) == ("slow 10000", [waiting])
    assert running not in done["cancelled"]
    assert (await owner.session(session_id))["queue"] == []
    assert await remembers(owner, session_id) == [
        "user: say one",
        "agent: one",
        "user: say two",
        "agent: two",
    ]


async def test_an_impossible_rewind_is_refused_and_changes_nothing(stack: Stack, owner: Account) -> None:
    session_id = await two_turns(stack, owner)
    log = await owner.messages(session_id, limit=200)
    address = f"/api/sessions/{session_id}/rewind"
    wrong = [
        ({"seq": log[-1]["seq"]}, 400, "turn_end"),
        ({"seq": log[-1]["seq"] + 1}, 404, "no entry"),
        ({"seq": 0}, 400, "seq"),
        ({}, 400, "seq"),
    ]
    for body, status, why in wrong:
        response = await owner.post(address, json=body)
        assert response.status_code == status, response.text
        assert why in response.json()["error"]["message"]
    await stack.stop_runner()
    offline = await owner.post(address, json={"seq": message(log, "say two")})
    assert (offline.status_code, offline.json()["error"]["code"]) == (409, "machine_offline")
    kept = await owner.messages(session_id, limit=200)
    assert kept[: len(log)] == log


async def test_a_fork_is_independent_of_its_source(stack: Stack, owner: Account) -> None:
    source = await two_turns(stack, owner)
    original = await owner.messages(source, limit=200)
    place = message(original, "say two")
    made = await owner.post_json(f"/api/sessions/{source}/fork", {"seq": place})
    assert made["type"] == "success"
    assert "entries copied" in " ".join(line["message"] for line in made["logs"])
    fork = made["sessionId"]
    session = await owner.session(fork)
    assert session["forkedFrom"] == {"sessionId": source, "seq": place - 2}
    assert (session["title"], session["lastMessage"]) == ("Fork of say one", "one")
    assert (await owner.session(source))["forkedFrom"] is None

    log = await owner.messages(fork, limit=200)
    assert [entry["seq"] for entry in log] == list(range(1, len(log) + 1))
    assert all(entry["id"] == f"{fork}:{entry['seq']}" for entry in log)
    kinds = [entry["content"]["kind"] for entry in log]
    assert kinds[:4] == ["turn_start", "user_message", "agent_message", "turn_end"]
    await owner.turn(fork, "say three")
    await owner.turn(source, "say four")
    assert await remembers(owner, fork) == ["user: say one", "agent: one", "user: say three", "agent: three"]
    assert await remembers(owner, source) == [
        "user: say one", "agent: one", "user: say two", "agent: two", "user: say four", "agent: four",
    ]  # fmt: skip

    await stack.stop_runner()
    await stack.start_runner()
    kept = await owner.turn(fork, "say five")
    assert [entry["seq"] for entry in kept] == list(range(1, len(kept) + 1))
    await owner.delete(f"/api/sessions/{source}")
    assert await owner.messages(fork, limit=200) == kept
    back = await owner.post_json(f"/api/sessions/{fork}/rewind", {"seq": message(kept, "say one")})
    assert back["firstSeq"] == 1
    assert await remembers(owner, fork) == []


async def test_a_busy_session_is_forked_without_a_change(stack: Stack, owner: Account) -> None:
    source = await two_turns(stack, owner)
    await owner.say(source, "slow 10000")
    await owner.until(source, "working")
    made = await owner.post_json(f"/api/sessions/{source}/fork", {"title": "mine"})
    fork = made["sessionId"]
    assert (await owner.session(source))["status"] == "working"
    session = await owner.session(fork)
    assert (session["title"], session["status"]) == ("mine", "idle")
    kinds = [entry["content"]["kind"] for entry in await owner.messages(fork, limit=200)]
    assert kinds.count("turn_start") == kinds.count("turn_end") == 3
    assert await remembers(owner, fork) == ["user: say one", "agent: one", "user: say two", "agent: two"]
    await owner.post_json(f"/api/sessions/{source}/abort")


async def test_a_session_without_messages_cannot_be_forked(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    refused = await owner.post(f"/api/sessions/{session_id}/fork")
    assert refused.status_code == 409
    assert refused.json()["type"] == "error"
    assert "nothing to fork yet" in refused.json()["message"]
    assert len((await owner.get_json("/api/sessions"))["sessions"]) == 1


async def test_a_fork_with_the_same_key_is_the_same_session(stack: Stack, owner: Account) -> None:
    source = await two_turns(stack, owner)
    key = {"Idempotency-Key": "once"}
    first = await owner.post(f"/api/sessions/{source}/fork", json={}, headers=key)
    again = await owner.post(f"/api/sessions/{source}/fork", json={}, headers=key)
    assert first.json()["sessionId"] == again.json()["sessionId"]
    other = await owner.post(f"/api/sessions/{source}/fork", json={"title": "x"}, headers=key)
    assert other.status_code == 409


async def test_a_queued_message_is_sent_now(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    running = await owner.say(session_id, "slow 10000")
    await owner.until(session_id, "working")
    first = await owner.say(session_id, "say first")
    second = await owner.say(session_id, "say second")
    address = f"/api/sessions/{session_id}/queue"
    assert await owner.post_json(f"{address}/{second}/send-now") == {"ok": True}
    log = await owner.turn(session_id, "say last")
    assert said(log, "user") == ["slow 10000", "say second", "say first", "say last"]
    for item in (running, first):
        late = await owner.post(f"{address}/{item}/send-now")
        assert (late.status_code, late.json()["error"]["code"]) == (409, "not_cancellable")
    unknown = await owner.post(f"{address}/{session_id}/send-now")
    assert unknown.status_code == 404


async def test_delivery_now_and_steer(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    await owner.say(session_id, "slow 10000")
    await owner.until(session_id, "working")
    await owner.say(session_id, "say waits")
    await owner.say(session_id, "say now", delivery="now")
    log = await owner.turn(session_id, "say last")
    assert said(log, "user") == ["slow 10000", "say now", "say waits", "say last"]
    steered = await owner.say(session_id, "slow 100")
    await owner.until(session_id, "working")
    await owner.say(session_id, "say hint", delivery="steer")

    async def taken() -> bool:
        return "say hint" in said(await owner.messages(session_id, limit=200), "user")

    await eventually(taken)
    log = await owner.messages(session_id, limit=200)
    turns = [entry["content"].get("itemId") for entry in log if entry["content"]["kind"] == "turn_start"]
    assert turns[-1] == steered
    wrong = await owner.post(f"/api/sessions/{session_id}/messages", json={"text": "x", "delivery": "soon"})
    assert wrong.status_code == 400
    await owner.post_json(f"/api/sessions/{session_id}/abort")


async def test_typing_in_an_idle_session_prewarms_its_process(stack: Stack, owner: Account) -> None:
    session_id = await two_turns(stack, owner)
    address = f"/api/sessions/{session_id}"
    await owner.post_json(f"{address}/stop")
    assert (await owner.session(session_id))["status"] == "stopped"
    log = await owner.messages(session_id, limit=200)
    assert await owner.post_json(f"{address}/typing", {"text": "sa"}) == {"ok": True}
    assert (await owner.session(session_id))["status"] == "stopped"
    assert await owner.messages(session_id, limit=200) == log
    assert await remembers(owner, session_id) == [
        "user: say one",
        "agent: one",
        "user: say two",
        "agent: two",
    ]
