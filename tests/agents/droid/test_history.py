"""A stored conversation as a person may see it, from either generation of CLIs."""

from __future__ import annotations

from farsteer.agents.droid.history import events, spoken
from farsteer.agents.droid.notes import Message
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Notice,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    UserMessage,
)

REMINDER = {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>"}
ANSWER = Message(
    id="a1",
    role="assistant",
    content=[
        {"type": "thinking", "thinking": "Hmm."},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "call-1", "name": "Execute", "input": {"command": "ls"}},
    ],
)
NEWER = [
    Message(id="context-u1", role="user", content=[REMINDER], visibility="llm_only"),
    Message(id="u1", role="user", content=[{"type": "text", "text": "What is here?"}]),
    ANSWER,
    Message(
        id="r1", role="tool",
        content=[{"type": "tool_result", "toolUseId": "call-1", "isError": False, "content": "README.md"}],
    ),
    Message(id="s1", role="system", content=[{"type": "text", "text": "Low on credit"}], visibility="user_only"),
    Message(id="s2", role="system", content=[{"type": "text", "text": "secret"}], visibility="llm_only"),
]  # fmt: skip
OLDER = [
    Message(id="u1", role="user", content=[REMINDER, REMINDER, {"type": "text", "text": "What is here?"}]),
    ANSWER,
    Message(
        id="r1", role="user",
        content=[{"type": "tool_result", "tool_use_id": "call-1", "is_error": True, "content": "Error: no"}],
    ),
]  # fmt: skip


def test_a_newer_history_leaves_out_what_only_the_model_sees() -> None:
    told = [*events(NEWER)]
    assert [type(event) for event in told] == [
        UserMessage, AgentThought, AgentMessage, ToolCall, ToolCallUpdate, Notice,
    ]  # fmt: skip
    assert isinstance(told[0], UserMessage)
    assert (told[0].text, told[0].anchor) == ("What is here?", "u1")
    assert "secret" not in str(told)


def test_an_older_history_has_its_reminders_stripped() -> None:
    told = [*events(OLDER)]
    assert isinstance(told[0], UserMessage)
    assert told[0].text == "What is here?"
    assert isinstance(told[-1], ToolCallUpdate)
    assert told[-1].status is ToolStatus.FAILED
    assert "Monday" not in str(told)


def test_only_reminders_are_stripped() -> None:
    assert spoken("plain") == "plain"
    assert spoken("<system-reminder>x</system-reminder>\nkeep <b>this</b>") == "keep <b>this</b>"
    assert spoken("before <system-reminder>never closed") == "before "
