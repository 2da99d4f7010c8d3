"""Updates as events, without a process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farsteer.agents.acp.protocol import SessionUpdate, decode_line
from farsteer.agents.acp.settings import SessionSettings
from farsteer.agents.acp.translator import Translator
from farsteer.agents.base import DeltaEmitted, EventEmitted
from farsteer.agents.catalog.definition import NativeModeNames
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    DeltaKind,
    Plan,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.modes import PermissionMode, ToolKind


class Stage:
    def __init__(self) -> None:
        self.output = TurnOutput()
        settings = SessionSettings("Sim", NativeModeNames(), PermissionMode.DEFAULT, None, None)
        self.translator = Translator(self.output, settings, lambda terminal: f"output of {terminal}")
        self.translator.open_session("s", stored=True)
        self.output.begin("turn")
        self.translator.begin_turn()
        self.events: list[Any] = []
        self.deltas: list[Any] = []

    def say(self, variant: str, /, **fields: Any) -> None:
        line = {
            "method": "session/update",
            "params": {"sessionId": "s", "update": {"sessionUpdate": variant, **fields}},
        }
        decoded = decode_line(json.dumps(line).encode())
        assert isinstance(decoded, SessionUpdate)
        self.translator.handle(decoded.update)
        self.take()

    def text(self, text: str, variant: str = "agent_message_chunk", **fields: Any) -> None:
        self.say(variant, content={"type": "text", "text": text}, **fields)

    def end(self, reason: TurnEndReason = TurnEndReason.END_TURN) -> None:
        self.translator.end_turn(reason)
        self.take()

    def take(self) -> None:
        for output in self.output.drain():
            if isinstance(output, EventEmitted):
                self.events.append(output.event)
            elif isinstance(output, DeltaEmitted):
                self.deltas.append(output.delta)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_chunks_without_ids_are_messages_until_something_else_follows(stage: Stage) -> None:
    stage.text("I ")
    stage.text("look.")
    stage.say("tool_call", toolCallId="c", title="Look", kind="search")
    stage.text("Found.")
    stage.end()
    assert [event.text for event in stage.of(AgentMessage)] == ["I look.", "Found."]
    assert stage.events[0].text == "I look."
    assert "".join(delta.text for delta in stage.deltas) == "I look.Found."


def test_a_thought_and_its_message_may_have_one_id(stage: Stage) -> None:
    stage.text("hm", "agent_thought_chunk", messageId="m")
    stage.text("yes", messageId="m")
    stage.end()
    assert [stage.of(AgentThought)[0].message_id, stage.of(AgentMessage)[0].message_id] == ["m:thought", "m"]


def test_a_message_that_goes_on_after_another_loses_nothing(stage: Stage) -> None:
    for text, message in (("a", "1"), ("b", "2"), ("c", "1")):
        stage.text(text, messageId=message)
    stage.end()
    assert [event.text for event in stage.of(AgentMessage)] == ["a", "b", "c"]
    assert len({event.message_id for event in stage.of(AgentMessage)}) == 3


@pytest.mark.parametrize("reason", [TurnEndReason.CANCELLED, TurnEndReason.FAILED, TurnEndReason.CRASHED])
def test_a_message_that_was_cut_short_is_partial(stage: Stage, reason: TurnEndReason) -> None:
    stage.text("half of")
    stage.end(reason)
    assert [(event.text, event.partial) for event in stage.of(AgentMessage)] == [("half of", True)]


def test_content_that_is_no_text_is_named(stage: Stage) -> None:
    stage.say("agent_message_chunk", content={"type": "resource_link", "name": "a", "uri": "file:///a"})
    stage.say("agent_message_chunk", content={"type": "image", "data": "x"})
    stage.end()
    assert stage.of(AgentMessage)[0].text == "[a](file:///a)[image]"


def text_content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def test_output_that_grows_is_streamed_and_stored_once(stage: Stage) -> None:
    stage.say("tool_call", toolCallId="c", title="run", kind="execute", status="in_progress")
    for text in ("a", "ab", "abc"):
        stage.say("tool_call_update", toolCallId="c", status="in_progress", content=text_content(text))
    stage.say("tool_call_update", toolCallId="c", status="completed")
    assert [delta.text for delta in stage.deltas if delta.kind is DeltaKind.TOOL_OUTPUT] == ["a", "b", "c"]
    results = [event for event in stage.of(ToolCallUpdate) if event.content]
    assert [event.content[0].text for event in results] == ["abc"]


def test_what_a_call_shows_before_it_runs_is_no_output(stage: Stage) -> None:
    stage.say("tool_call", toolCallId="c", title="Bash", kind="execute", status="pending")
    stage.say("tool_call_update", toolCallId="c", content=text_content('{"comm'))
    assert stage.deltas == []


def test_an_update_of_a_call_that_was_not_announced_begins_it(stage: Stage) -> None:
    stage.say(
        "tool_call_update", toolCallId="c", title="Edit", kind="edit", status="completed",
        content=[{"type": "diff", "path": "/a", "oldText": None, "newText": "x"}],
        locations=[{"path": "/a", "line": 3}],
    )  # fmt: skip
    (call,), (result,) = stage.of(ToolCall), stage.of(ToolCallUpdate)
    assert (call.title, call.tool_kind, result.status) == ("Edit", ToolKind.EDIT, ToolStatus.COMPLETED)
    assert call.locations[0].line == 3


def test_a_terminal_shows_its_output_in_the_result(stage: Stage) -> None:
    terminal = [{"type": "terminal", "terminalId": "t"}]
    stage.say("tool_call", toolCallId="c", title="run", kind="execute", content=terminal)
    stage.say("tool_call_update", toolCallId="c", status="completed")
    assert stage.of(ToolCallUpdate)[-1].content[0].text == "output of t"


def test_a_call_without_a_result_fails_with_its_turn_and_may_still_get_one(stage: Stage) -> None:
    stage.say("tool_call", toolCallId="c", title="run", kind="execute")
    stage.end()
    assert stage.of(ToolCallUpdate)[-1].status is ToolStatus.FAILED
    assert not stage.translator.calls.has_open
    stage.say("tool_call_update", toolCallId="c", status="completed", rawOutput="late")
    assert stage.of(ToolCallUpdate)[-1].output == "late"
    assert len(stage.of(ToolCall)) == 1


def test_a_replay_repeats_nothing_of_the_conversation(stage: Stage) -> None:
    stage.translator.is_replaying = True
    stage.text("old", "user_message_chunk")
    stage.text("old")
    stage.say("tool_call", toolCallId="c", title="old")
    stage.say("plan", entries=[])
    stage.say("session_info_update", title="The bug")
    assert stage.events == [TitleUpdate(title="The bug")]


def test_plans_and_costs(stage: Stage) -> None:
    stage.say("plan", entries=[{"content": "one", "status": "completed", "priority": "high"}])
    for amount in (1.0, 1.5):
        stage.say("usage_update", used=5, size=10, cost={"amount": amount, "currency": "USD"})
    stage.say("usage_update", used=5, size=10, cost={"amount": 3, "currency": "EUR"})
    assert stage.of(Plan)[0].entries[0].content == "one"
    assert [event.cost_usd for event in stage.of(UsageUpdate)] == [1.0, 0.5, None]


def test_tokens_in_the_meta_of_an_empty_chunk_are_counted(stage: Stage) -> None:
    stage.text("", _meta={"usage": {"inputTokens": 10, "outputTokens": 2}})
    assert [(event.input_tokens, event.output_tokens) for event in stage.of(UsageUpdate)] == [(10, 2)]
    assert stage.translator.is_empty
