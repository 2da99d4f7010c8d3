"""HAPI's events, as HAPI 0.30.7 sent them."""

from typing import Any

import pytest

from bench.agents.through_hapi import is_end, text_of


def received(content: dict[str, Any], role: str = "agent") -> dict[str, Any]:
    message = {"id": "1", "seq": 2, "localId": None, "content": {"role": role, "content": content}}
    return {"type": "message-received", "sessionId": "s", "message": message, "namespace": "default"}


def output(**data: Any) -> dict[str, Any]:
    return received({"type": "output", "data": data})


def codex(**data: Any) -> dict[str, Any]:
    return received({"type": "codex", "data": data})


CLAUDE = output(
    type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": "hello"}]}
)
CODEX = codex(type="message", message="hello", id="codex:1:agent_message")
READY = received({"id": "1", "type": "event", "data": {"type": "ready"}})
OTHERS = [
    received({"type": "text", "text": "[[say:hello]]"}, role="user"),
    output(type="system", subtype="turn_duration", durationMs=910),
    output(type="assistant", message={"content": [{"type": "tool_use", "name": "Bash"}]}),
    codex(type="token_count", info={}),
    codex(type="thread_goal_cleared", thread_id="1"),
    {"type": "session-updated", "sessionId": "s", "data": {"thinking": True}},
    {"type": "messages-consumed", "sessionId": "s", "localIds": ["1"]},
]


@pytest.mark.parametrize("event", [CLAUDE, CODEX])
def test_an_agents_text_is_heard(event: dict[str, Any]) -> None:
    assert text_of(event) == "hello"
    assert not is_end(event)


def test_a_turn_ends_when_the_agent_is_ready() -> None:
    assert is_end(READY)
    assert text_of(READY) == ""


@pytest.mark.parametrize("event", OTHERS)
def test_nothing_else_is_text_or_an_end(event: dict[str, Any]) -> None:
    assert text_of(event) == ""
    assert not is_end(event)
