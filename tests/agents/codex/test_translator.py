"""Codex's notifications as events. The golden wire files have the usual course; here is what is rare."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farsteer.agents.base import DeltaEmitted, EventEmitted, Output, Registered, TurnEnded
from farsteer.agents.codex import protocol
from farsteer.agents.codex.translator import LOGIN_HINT, Translator, error_text
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Compacted,
    Notice,
    Other,
    Plan,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
)

MAIN, CHILD, TURN = "main", "child", "turn-of-codex"


class Stream:
    """A translator in a running turn, fed with notifications."""

    def __init__(self) -> None:
        self.output = TurnOutput()
        self.translator = Translator(self.output)
        self.translator.open_thread(MAIN, stored=False)
        self.output.begin("turn")
        self.notify("turn/started", turn={"id": TURN})
        self._outputs: list[Output] = []

    def notify(self, method: str, thread: str = MAIN, /, **params: Any) -> None:
        given = {"threadId": thread, "turnId": TURN, **params}
        message = protocol.decode_line(json.dumps({"method": method, "params": given}).encode())
        if isinstance(message, protocol.UnknownNotification):
            self.translator.handle_unknown(message)
        else:
            assert not isinstance(message, protocol.Response | protocol.Request | protocol.InvalidLine)
            self.translator.handle(message)

    def item(self, kind: str, item_id: str = "item", thread: str = MAIN, **fields: Any) -> None:
        """Begin and end an item."""
        for method in ("item/started", "item/completed"):
            self.notify(method, thread, item={"type": kind, "id": item_id, **fields})

    @property
    def outputs(self) -> list[Output]:
        self._outputs += self.output.drain()
        return self._outputs

    @property
    def ends(self) -> list[TurnEnded]:
        return [one for one in self.outputs if isinstance(one, TurnEnded)]

    def events(self, kind: type[Any]) -> list[Any]:
        return [
            one.event for one in self.outputs if isinstance(one, EventEmitted) and isinstance(one.event, kind)
        ]


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("completed", TurnEndReason.END_TURN),
        ("interrupted", TurnEndReason.CANCELLED),
        ("failed", TurnEndReason.FAILED),
    ],
)
def test_the_end_of_a_turn(stream: Stream, status: str, reason: TurnEndReason) -> None:
    for _ in range(2):
        stream.notify("turn/completed", turn={"id": TURN, "status": status, "error": {"message": "no"}})
    (end,) = stream.ends
    assert (end.turn_id, end.reason) == ("turn", reason)
    assert (end.error == "no") is (status == "failed")


def test_the_end_of_another_turn_or_thread_does_not_end_it(stream: Stream) -> None:
    stream.notify("turn/completed", turn={"id": "earlier", "status": "completed"})
    stream.notify("turn/completed", CHILD, turn={"id": TURN, "status": "completed"})
    assert stream.ends == []


def test_a_thread_is_registered_with_its_first_message_and_once(stream: Stream) -> None:
    stream.item("userMessage")
    stream.notify("turn/completed", turn={"id": TURN, "status": "completed"})
    assert [one.native_id for one in stream.outputs if isinstance(one, Registered)] == [MAIN]


def test_parts_of_a_summary_are_apart_and_add_up_to_the_thought(stream: Stream) -> None:
    stream.notify("item/started", item={"type": "reasoning", "id": "rs"})
    for index, text in enumerate(("one", "two")):
        stream.notify("item/reasoning/summaryPartAdded", itemId="rs", summaryIndex=index)
        stream.notify("item/reasoning/summaryTextDelta", itemId="rs", summaryIndex=index, delta=text)
    stream.notify("item/completed", item={"type": "reasoning", "id": "rs", "summary": ["one", "two"]})
    (thought,) = stream.events(AgentThought)
    streamed = "".join(one.delta.text for one in stream.outputs if isinstance(one, DeltaEmitted))
    assert thought.text == streamed == "one\n\ntwo"


def test_a_message_that_codex_does_not_complete_is_partial(stream: Stream) -> None:
    stream.notify("item/started", item={"type": "agentMessage", "id": "m1"})
    stream.notify("item/agentMessage/delta", itemId="m1", delta="half ")
    stream.notify("error", error={"message": "Reconnecting"}, willRetry=True)
    (message,) = stream.events(AgentMessage)
    assert (message.text, message.partial) == ("half ", True)
    assert [notice.code for notice in stream.events(Notice)] == ["retry"]
    assert stream.ends == []


def test_the_error_that_ends_a_turn_is_its_reason_and_no_notice(stream: Stream) -> None:
    stream.notify("error", error={"message": "broken"}, willRetry=False)
    stream.notify("turn/completed", turn={"id": TURN, "status": "failed", "error": {"message": "broken"}})
    assert stream.events(Notice) == []
    assert stream.ends[0].error == "broken"


def test_an_error_outside_of_a_turn_is_a_notice(stream: Stream) -> None:
    stream.notify("turn/completed", turn={"id": TURN, "status": "completed"})
    stream.notify("error", error={"message": "broken"}, willRetry=False)
    assert [(notice.code, notice.level) for notice in stream.events(Notice)] == [("agent_error", "error")]


def test_errors_name_their_details_and_how_to_log_in() -> None:
    error = protocol.TurnError(message="no", additional_details="because")
    assert error_text(error) == "no (because)"
    assert LOGIN_HINT in error_text(protocol.TurnError(message="no", codex_error_info="unauthorized"))
    assert LOGIN_HINT in error_text(protocol.TurnError(message="unexpected status 401 Unauthorized"))
    assert error_text(None) == error_text(protocol.TurnError()) == "Codex gave no reason"


def test_a_plan_has_our_words_for_its_states(stream: Stream) -> None:
    steps = [{"step": name, "status": name} for name in ("pending", "inProgress", "completed", "new")]
    stream.notify("turn/plan/updated", plan=steps, explanation="why")
    (plan,) = stream.events(Plan)
    assert [entry.status for entry in plan.entries] == ["pending", "in_progress", "completed", "pending"]
    assert plan.meta == {"explanation": "why"}


def test_the_plan_and_the_name_of_a_sub_agent_are_not_those_of_the_session(stream: Stream) -> None:
    stream.notify("turn/plan/updated", CHILD, plan=[{"step": "x"}])
    stream.notify("thread/name/updated", CHILD, threadName="child")
    stream.notify("thread/name/updated", threadName="ours\n")
    assert stream.events(Plan) == []
    assert [event.title for event in stream.events(TitleUpdate)] == ["ours"]


def test_a_compaction_is_one_event(stream: Stream) -> None:
    stream.item("contextCompaction")
    stream.notify("thread/compacted")
    assert stream.events(Compacted) == [Compacted()]


def test_a_sub_agent_that_was_not_announced_gets_a_call(stream: Stream) -> None:
    stream.item("agentMessage", "m", CHILD, text="hi")
    (call,) = stream.events(ToolCall)
    (message,) = stream.events(AgentMessage)
    assert call.tool == "sub_agent"
    assert message.parent_tool_call_id == call.tool_call_id
    assert message.anchor is None
    stream.notify("turn/completed", CHILD, turn={"id": "other", "status": "failed"})
    (update,) = stream.events(ToolCallUpdate)
    assert (update.tool_call_id, update.status) == (call.tool_call_id, ToolStatus.FAILED)
    assert stream.ends == []


def test_a_sub_agent_of_a_sub_agent_names_its_parent(stream: Stream) -> None:
    stream.notify("thread/started", thread={"id": CHILD, "parentThreadId": MAIN, "agentNickname": "Ada"})
    stream.notify("thread/started", thread={"id": "grandchild", "parentThreadId": CHILD})
    first, second = stream.events(ToolCall)
    assert (first.title, first.parent_tool_call_id) == ("Sub-agent Ada", None)
    assert second.parent_tool_call_id == first.tool_call_id


def test_an_error_of_a_sub_agent_is_a_notice(stream: Stream) -> None:
    stream.notify("error", CHILD, error={"message": "sub failed"}, willRetry=False)
    assert [notice.code for notice in stream.events(Notice)] == ["agent_error"]
    assert stream.ends == []


def test_a_tool_that_was_never_announced_is_still_whole(stream: Stream) -> None:
    stream.notify("item/completed", item={"type": "webSearch", "id": "ws", "query": "x"})
    assert len(stream.events(ToolCall)) == len(stream.events(ToolCallUpdate)) == 1


def test_announced_changes_are_found_until_they_are_done(stream: Stream) -> None:
    item = {"type": "fileChange", "id": "call", "changes": [{"path": "/a", "kind": {"type": "add"}}]}
    stream.notify("item/started", item=item)
    stream.notify("item/fileChange/patchUpdated", itemId="call", changes=[{"path": "/b"}])
    found = stream.translator.find_changes("call")
    assert found is not None
    assert [change.path for change in found.changes] == ["/b"]
    stream.notify("item/completed", item={**item, "status": "completed"})
    assert stream.translator.find_changes("call") is None


def test_the_number_of_remembered_changes_is_bounded(stream: Stream) -> None:
    for number in range(1000):
        stream.notify("item/started", item={"type": "fileChange", "id": f"call{number}", "changes": []})
    known = [number for number in range(1000) if stream.translator.find_changes(f"call{number}")]
    assert 1 < len(known) <= 256
    assert known[-1] == 999


def test_a_warning_is_shown_once_and_a_server_that_fails_is_told(stream: Stream) -> None:
    for _ in range(3):
        stream.notify("warning", message="careful")
    stream.notify("configWarning", summary="wrong", details="here")
    stream.notify("mcpServer/startupStatus/updated", name="echo", status="ready")
    stream.notify("mcpServer/startupStatus/updated", name="echo", status="failed", error="gone")
    stream.notify("model/rerouted", fromModel="a", toModel="b")
    texts = [notice.text for notice in stream.events(Notice)]
    assert texts[:2] == ["careful", "wrong: here"]
    assert "gone" in texts[2]
    assert "b instead of a" in texts[3]


def test_a_message_sent_into_a_turn_that_the_model_did_not_see_is_reported(stream: Stream) -> None:
    stream.translator.steered |= {"seen": None, "lost": None}
    stream.notify("item/completed", item={"type": "userMessage", "id": "u", "clientId": "seen"})
    stream.notify("turn/completed", turn={"id": TURN, "status": "interrupted"})
    (notice,) = stream.events(Notice)
    assert (notice.code, notice.meta) == ("steer_lost", {"messageIds": ["lost"]})


def test_an_unknown_message_is_kept_and_a_known_one_of_another_shape_too(stream: Stream) -> None:
    stream.notify("thread/newThing", thing=[1])
    stream.notify("item/completed", item={"type": "newItem", "id": "x"})
    stream.notify("turn/plan/updated", plan="text")
    stream.notify("thread/status/changed", status={"type": "idle"})
    kept = stream.events(Other)
    assert [one.native_kind for one in kept] == ["thread/newThing", "item/completed", "turn/plan/updated"]
    assert kept[0].data["thing"] == [1]
