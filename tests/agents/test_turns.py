"""The rules that `TurnOutput` keeps for every adapter."""

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
def output() -> TurnOutput:
    output = TurnOutput()
    output.begin("t")
    return output


def delta(text: str, offset: int, message: str = "m", kind: DeltaKind = DeltaKind.MESSAGE) -> Output:
    return DeltaEmitted(Delta(message_id=message, kind=kind, text=text, offset=offset))


def test_deltas_of_a_batch_merge_and_offsets_count_characters(output: TurnOutput) -> None:
    output.add_delta(DeltaKind.MESSAGE, "m", "ab")
    output.add_delta(DeltaKind.MESSAGE, "m", "c🎉")
    assert output.drain() == [delta("abc🎉", 0)]
    output.add_delta(DeltaKind.MESSAGE, "m", "d")
    output.add_message("m", "abc🎉d")
    assert output.drain() == [delta("d", 4), EventEmitted(AgentMessage(message_id="m", text="abc🎉d"))]


def test_interleaved_messages_keep_their_order_and_their_offsets(output: TurnOutput) -> None:
    output.add_delta(DeltaKind.MESSAGE, "m", "a")
    output.add_delta(DeltaKind.THOUGHT, "h", "x")
    output.add_delta(DeltaKind.MESSAGE, "m", "b")
    assert output.drain() == [delta("a", 0), delta("x", 0, "h", DeltaKind.THOUGHT), delta("b", 1)]


def test_a_turn_ends_once(output: TurnOutput) -> None:
    output.end(TurnEndReason.END_TURN)
    output.end(TurnEndReason.CRASHED)
    assert output.drain() == [END]
    assert output.turn_id is None


def test_one_turn_at_a_time(output: TurnOutput) -> None:
    with pytest.raises(Conflict):
        output.begin("u")


def test_open_items_are_closed_before_the_turn_ends(output: TurnOutput) -> None:
    approval = Approval(id="a", kind=ApprovalKind.PERMISSION, title="?", created_at=1)
    output.add_delta(DeltaKind.THOUGHT, "h", "hm")
    output.add_delta(DeltaKind.MESSAGE, "m", "half")
    output.add_event(
        ToolCall(tool_call_id="c", title="x", tool_kind=ToolKind.EXECUTE, status=ToolStatus.IN_PROGRESS)
    )
    output.add_delta(DeltaKind.TOOL_OUTPUT, "c", "out")
    output.ask_approval(approval)
    output.drain()
    output.end(TurnEndReason.END_TURN)
    assert output.drain() == [
        EventEmitted(AgentThought(message_id="h", text="hm", partial=True)),
        EventEmitted(AgentMessage(message_id="m", text="half", partial=True)),
        EventEmitted(
            ToolCallUpdate(
                tool_call_id="c", status=ToolStatus.FAILED, content=(TextBlock(text="out"),), partial=True
            )
        ),
        ApprovalWithdrawn(approval_id="a"),
        END,
    ]


def test_finished_items_are_not_closed_again(output: TurnOutput) -> None:
    output.add_delta(DeltaKind.MESSAGE, "m", "whole")
    output.add_message("m", "whole")
    output.add_event(
        ToolCall(tool_call_id="c", title="x", tool_kind=ToolKind.READ, status=ToolStatus.PENDING)
    )
    output.add_event(ToolCallUpdate(tool_call_id="c", status=ToolStatus.COMPLETED))
    output.drain()
    output.end(TurnEndReason.END_TURN)
    assert output.drain() == [END]


def test_a_repeated_message_and_its_late_deltas_are_dropped(output: TurnOutput) -> None:
    output.add_message("m", "once")
    output.add_message("m", "once")
    output.add_delta(DeltaKind.MESSAGE, "m", "once")
    assert output.drain() == [EventEmitted(AgentMessage(message_id="m", text="once"))]


def test_the_memory_of_finished_ids_is_bounded_and_still_drops_a_repetition(output: TurnOutput) -> None:
    for n in range(10_000):
        output.add_message(f"m{n}", "x")
    output.add_message("m9999", "x")
    assert len(output.drain()) == 10_000
    assert len(output._finished) <= 1024


def test_deltas_beyond_the_draft_limit_are_emitted_but_not_kept(
    output: TurnOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.agents.turns._DRAFT_CHARS", 10)
    for _ in range(5):
        output.add_delta(DeltaKind.MESSAGE, "m", "12345")
        output.drain()
    output.end(TurnEndReason.END_TURN)
    assert output.drain() == [
        EventEmitted(AgentMessage(message_id="m", text="1234512345", partial=True)),
        END,
    ]


def test_an_approval_is_answered_while_it_is_open(output: TurnOutput) -> None:
    approval = Approval(id="a", kind=ApprovalKind.PERMISSION, title="?", created_at=1)
    output.ask_approval(approval)
    output.close_approval("a")
    with pytest.raises(Conflict):
        output.close_approval("a")
    output.withdraw_approval("a")
    assert output.drain() == [ApprovalAsked(approval)]


def test_an_abandoned_turn_has_no_end(output: TurnOutput) -> None:
    output.abandon()
    output.end(TurnEndReason.CRASHED)
    assert output.drain() == []


def test_unfinished_messages_go_on_in_the_turn_that_takes_over(output: TurnOutput) -> None:
    output.add_delta(DeltaKind.MESSAGE, "m", "The bui")
    output.add_event(ToolCallUpdate(tool_call_id="c", status=ToolStatus.IN_PROGRESS))
    output.hand_over("next")
    output.add_delta(DeltaKind.MESSAGE, "m", "ld")
    output.add_message("m", "The build")
    drained = output.drain()
    assert [type(one) for one in drained] == [
        DeltaEmitted, EventEmitted, EventEmitted, TurnEnded, DeltaEmitted, EventEmitted,
    ]  # fmt: skip
    assert drained[-1] == EventEmitted(AgentMessage(message_id="m", text="The build"))
    assert drained[3] == END
    assert output.turn_id == "next"


def test_a_long_notice_is_shortened(output: TurnOutput) -> None:
    output.add_notice("x" * 10_000, "agent_protocol")
    (emitted,) = output.drain()
    assert isinstance(emitted, EventEmitted)
    assert isinstance(emitted.event, Notice)
    assert len(emitted.event.text) == 500
