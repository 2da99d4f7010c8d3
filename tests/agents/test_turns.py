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
from farsteer.agents.turns import TurnOutput
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
def turns() -> TurnOutput:
    turns = TurnOutput()
    turns.begin("t")
    return turns


def fragment(text: str, offset: int, message: str = "m", kind: DeltaKind = DeltaKind.MESSAGE) -> Output:
    return DeltaEmitted(Delta(message_id=message, kind=kind, text=text, offset=offset))


def test_fragments_of_a_batch_merge_and_offsets_count_characters(turns: TurnOutput) -> None:
    turns.add_delta(DeltaKind.MESSAGE, "m", "ab")
    turns.add_delta(DeltaKind.MESSAGE, "m", "c🎉")
    assert turns.drain() == [fragment("abc🎉", 0)]
    turns.add_delta(DeltaKind.MESSAGE, "m", "d")
    turns.add_message("m", "abc🎉d")
    assert turns.drain() == [fragment("d", 4), EventEmitted(AgentMessage(message_id="m", text="abc🎉d"))]


def test_interleaved_messages_keep_their_order_and_their_offsets(turns: TurnOutput) -> None:
    turns.add_delta(DeltaKind.MESSAGE, "m", "a")
    turns.add_delta(DeltaKind.THOUGHT, "h", "x")
    turns.add_delta(DeltaKind.MESSAGE, "m", "b")
    assert turns.drain() == [fragment("a", 0), fragment("x", 0, "h", DeltaKind.THOUGHT), fragment("b", 1)]


def test_a_turn_ends_once(turns: TurnOutput) -> None:
    turns.end(TurnEndReason.END_TURN)
    turns.end(TurnEndReason.CRASHED)
    assert turns.drain() == [END]
    assert turns.turn_id is None


def test_one_turn_at_a_time(turns: TurnOutput) -> None:
    with pytest.raises(Conflict):
        turns.begin("u")


def test_what_is_open_is_closed_before_the_end(turns: TurnOutput) -> None:
    approval = Approval(id="a", kind=ApprovalKind.PERMISSION, title="?", created_at=1)
    turns.add_delta(DeltaKind.THOUGHT, "h", "hm")
    turns.add_delta(DeltaKind.MESSAGE, "m", "half")
    turns.add_event(
        ToolCall(tool_call_id="c", title="x", tool_kind=ToolKind.EXECUTE, status=ToolStatus.IN_PROGRESS)
    )
    turns.add_delta(DeltaKind.TOOL_OUTPUT, "c", "out")
    turns.ask_approval(approval)
    turns.drain()
    turns.end(TurnEndReason.END_TURN)
    assert turns.drain() == [
        EventEmitted(AgentThought(message_id="h", text="hm", partial=True)),
        EventEmitted(AgentMessage(message_id="m", text="half", partial=True)),
        EventEmitted(
            ToolCallUpdate(tool_call_id="c", status=ToolStatus.FAILED, content=(TextBlock(text="out"),))
        ),
        ApprovalWithdrawn(approval_id="a"),
        END,
    ]


def test_what_is_finished_is_not_closed_again(turns: TurnOutput) -> None:
    turns.add_delta(DeltaKind.MESSAGE, "m", "whole")
    turns.add_message("m", "whole")
    turns.add_event(ToolCall(tool_call_id="c", title="x", tool_kind=ToolKind.READ, status=ToolStatus.PENDING))
    turns.add_event(ToolCallUpdate(tool_call_id="c", status=ToolStatus.COMPLETED))
    turns.drain()
    turns.end(TurnEndReason.END_TURN)
    assert turns.drain() == [END]


def test_a_repeated_message_and_its_late_fragments_are_dropped(turns: TurnOutput) -> None:
    turns.add_message("m", "once")
    turns.add_message("m", "once")
    turns.add_delta(DeltaKind.MESSAGE, "m", "once")
    assert turns.drain() == [EventEmitted(AgentMessage(message_id="m", text="once"))]


def test_memory_of_a_flood_is_bounded_and_still_notices_a_repetition(turns: TurnOutput) -> None:
    for n in range(10_000):
        turns.add_message(f"m{n}", "x")
    turns.add_message("m9999", "x")
    assert len(turns.drain()) == 10_000
    assert len(turns._finished) <= 1024


def test_an_endless_message_goes_out_live_and_is_not_kept(
    turns: TurnOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.agents.turns._DRAFT_CHARS", 10)
    for _ in range(5):
        turns.add_delta(DeltaKind.MESSAGE, "m", "12345")
        turns.drain()
    turns.end(TurnEndReason.END_TURN)
    assert turns.drain() == [EventEmitted(AgentMessage(message_id="m", text="1234512345", partial=True)), END]


def test_an_approval_is_answered_while_it_is_open(turns: TurnOutput) -> None:
    approval = Approval(id="a", kind=ApprovalKind.PERMISSION, title="?", created_at=1)
    turns.ask_approval(approval)
    turns.close_approval("a")
    with pytest.raises(Conflict):
        turns.close_approval("a")
    turns.withdraw_approval("a")
    assert turns.drain() == [ApprovalAsked(approval)]


def test_an_abandoned_turn_has_no_end(turns: TurnOutput) -> None:
    turns.abandon()
    turns.end(TurnEndReason.CRASHED)
    assert turns.drain() == []


def test_a_notice_is_short(turns: TurnOutput) -> None:
    turns.add_notice("x" * 10_000, "agent_protocol")
    (said,) = turns.drain()
    assert isinstance(said, EventEmitted)
    assert isinstance(said.event, Notice)
    assert len(said.event.text) == 500
