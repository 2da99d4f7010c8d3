"""What every adapter owes about a turn, kept whatever the agent says."""

from __future__ import annotations

import pytest

from farsteer.agents.base import (
    ApprovalAsked,
    ApprovalWithdrawn,
    DeltaEmitted,
    EventEmitted,
    Output,
    TurnEnded,
)
from farsteer.agents.turns import Turns
from farsteer.core.approvals import Approval, ApprovalKind
from farsteer.core.errors import Conflict
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Delta,
    DeltaKind,
    Notice,
    TextBlock,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
)
from farsteer.core.modes import ToolKind

END = TurnEnded(turn_id="t", reason=TurnEndReason.END_TURN)


@pytest.fixture
def turns() -> Turns:
    turns = Turns()
    turns.begin("t")
    return turns


def fragment(text: str, offset: int, message: str = "m", kind: DeltaKind = DeltaKind.MESSAGE) -> Output:
    return DeltaEmitted(Delta(message_id=message, kind=kind, text=text, offset=offset))


def test_fragments_of_a_batch_merge_and_offsets_count_characters(turns: Turns) -> None:
    turns.delta(DeltaKind.MESSAGE, "m", "ab")
    turns.delta(DeltaKind.MESSAGE, "m", "c🎉")
    assert turns.take() == [fragment("abc🎉", 0)]
    turns.delta(DeltaKind.MESSAGE, "m", "d")
    turns.message("m", "abc🎉d")
    assert turns.take() == [fragment("d", 4), EventEmitted(AgentMessage(message_id="m", text="abc🎉d"))]


def test_interleaved_messages_keep_their_order_and_their_offsets(turns: Turns) -> None:
    turns.delta(DeltaKind.MESSAGE, "m", "a")
    turns.delta(DeltaKind.THOUGHT, "h", "x")
    turns.delta(DeltaKind.MESSAGE, "m", "b")
    assert turns.take() == [fragment("a", 0), fragment("x", 0, "h", DeltaKind.THOUGHT), fragment("b", 1)]


def test_a_turn_ends_once(turns: Turns) -> None:
    turns.end(TurnEndReason.END_TURN)
    turns.end(TurnEndReason.CRASHED)
    assert turns.take() == [END]
    assert turns.current is None


def test_one_turn_at_a_time(turns: Turns) -> None:
    with pytest.raises(Conflict):
        turns.begin("u")


def test_what_is_open_is_closed_before_the_end(turns: Turns) -> None:
    approval = Approval(id="a", kind=ApprovalKind.PERMISSION, title="?", created_at=1)
    turns.delta(DeltaKind.THOUGHT, "h", "hm")
    turns.delta(DeltaKind.MESSAGE, "m", "half")
    turns.say(
        ToolCall(tool_call_id="c", title="x", tool_kind=ToolKind.EXECUTE, status=ToolStatus.IN_PROGRESS)
    )
    turns.delta(DeltaKind.TOOL_OUTPUT, "c", "out")
    turns.ask(approval)
    turns.take()
    turns.end(TurnEndReason.END_TURN)
    assert turns.take() == [
        EventEmitted(AgentThought(message_id="h", text="hm", partial=True)),
        EventEmitted(AgentMessage(message_id="m", text="half", partial=True)),
        EventEmitted(
            ToolCallUpdate(tool_call_id="c", status=ToolStatus.FAILED, content=(TextBlock(text="out"),))
        ),
        ApprovalWithdrawn(approval_id="a"),
        END,
    ]


def test_what_is_finished_is_not_closed_again(turns: Turns) -> None:
    turns.delta(DeltaKind.MESSAGE, "m", "whole")
    turns.message("m", "whole")
    turns.say(ToolCall(tool_call_id="c", title="x", tool_kind=ToolKind.READ, status=ToolStatus.PENDING))
    turns.say(ToolCallUpdate(tool_call_id="c", status=ToolStatus.COMPLETED))
    turns.take()
    turns.end(TurnEndReason.END_TURN)
    assert turns.take() == [END]


def test_a_repeated_message_and_its_late_fragments_are_dropped(turns: Turns) -> None:
    turns.message("m", "once")
    turns.message("m", "once")
    turns.delta(DeltaKind.MESSAGE, "m", "once")
    assert turns.take() == [EventEmitted(AgentMessage(message_id="m", text="once"))]


def test_memory_of_a_flood_is_bounded_and_still_notices_a_repetition(turns: Turns) -> None:
    for n in range(10_000):
        turns.message(f"m{n}", "x")
    turns.message("m9999", "x")
    assert len(turns.take()) == 10_000
    assert len(turns._finished) <= 1024


def test_an_endless_message_goes_out_live_and_is_not_kept(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.agents.turns._DRAFT_CHARS", 10)
    for _ in range(5):
        turns.delta(DeltaKind.MESSAGE, "m", "12345")
        turns.take()
    turns.end(TurnEndReason.END_TURN)
    assert turns.take() == [EventEmitted(AgentMessage(message_id="m", text="1234512345", partial=True)), END]


def test_an_approval_is_answered_while_it_is_open(turns: Turns) -> None:
    approval = Approval(id="a", kind=ApprovalKind.PERMISSION, title="?", created_at=1)
    turns.ask(approval)
    turns.answered("a")
    with pytest.raises(Conflict):
        turns.answered("a")
    turns.withdraw("a")
    assert turns.take() == [ApprovalAsked(approval)]


def test_an_abandoned_turn_has_no_end(turns: Turns) -> None:
    turns.abandon()
    turns.end(TurnEndReason.CRASHED)
    assert turns.take() == []


def test_a_notice_is_short(turns: Turns) -> None:
    turns.notice("x" * 10_000, "agent_protocol")
    (said,) = turns.take()
    assert isinstance(said, EventEmitted)
    assert isinstance(said.event, Notice)
    assert len(said.event.text) == 500
