"""Which of Farsteer's events are text, and which says that a message was delivered."""

from typing import Any

from bench.agents.through_farsteer import content_of, is_delivery, text_of


def delta(kind: str) -> dict[str, Any]:
    return {"type": "message-delta", "sessionId": "s", "delta": {"kind": kind, "text": "hello"}}


def message(**content: Any) -> dict[str, Any]:
    return {"type": "message-received", "sessionId": "s", "message": {"content": content}}


def test_only_the_agents_message_is_text() -> None:
    assert text_of(delta("agent_message")) == "hello"
    assert text_of(delta("agent_thought")) == ""
    assert text_of(message(kind="agent_message", text="hello")) == ""


def test_a_message_is_delivered_when_its_outcome_says_so() -> None:
    assert is_delivery(message(kind="queue_update", state="delivered"))
    assert not is_delivery(message(kind="queue_update", state="queued"))
    assert not is_delivery(delta("agent_message"))


def test_the_end_of_a_turn_is_a_stored_message() -> None:
    assert content_of(message(kind="turn_end"))["kind"] == "turn_end"
    assert content_of({"type": "session-updated"}) == {}
