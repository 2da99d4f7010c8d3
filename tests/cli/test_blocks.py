"""The log as blocks: in order, each once, whatever arrives when."""

from __future__ import annotations

from farsteer.cli.terminal.blocks import (
    ApprovalBlock,
    BlockList,
    MessageBlock,
    NoteBlock,
    PlanBlock,
    ToolBlock,
)
from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind, Outcome
from farsteer.core.events import Delta, DeltaKind, Entry, SessionEvent, ToolStatus, TurnEndReason, make_entry
from farsteer.core.modes import ToolKind


def entries(*events: SessionEvent, first: int = 1) -> list[Entry]:
    return [make_entry("s", seq, event, 1000) for seq, event in enumerate(events, first)]


def listed(*events: SessionEvent) -> BlockList:
    log = BlockList()
    for entry in entries(*events):
        log.add(entry)
    return log


def shown(log: BlockList) -> list[str]:
    texts: list[str] = []
    for block in log.blocks:
        match block:
            case MessageBlock():
                texts.append(block.text)
            case ToolBlock():
                texts.append(f"{block.title} {block.status.value}")
            case ApprovalBlock():
                texts.append(f"? {block.resolved.outcome.value if block.resolved else 'open'}")
            case PlanBlock():
                texts.append(" ".join(step.status for step in block.entries))
            case NoteBlock():
                texts.append(block.lines[0].text)
            case _:
                raise AssertionError(block)
    return texts


def said(text: str) -> ev.UserMessage:
    return ev.UserMessage(item_id=text, text=text)


def answered(text: str, id: str = "m") -> ev.AgentMessage:
    return ev.AgentMessage(message_id=id, text=text)


def called(id: str = "t", *content: ev.ToolContent) -> ev.ToolCall:
    return ev.ToolCall(
        tool_call_id=id, title="Edit", tool_kind=ToolKind.EDIT, status=ToolStatus.PENDING, content=content
    )


def done(id: str = "t", *content: ev.ToolContent) -> ev.ToolCallUpdate:
    return ev.ToolCallUpdate(tool_call_id=id, status=ToolStatus.COMPLETED, content=content)


def part(text: str, offset: int = 0, id: str = "m", kind: DeltaKind = DeltaKind.MESSAGE) -> Delta:
    return Delta(message_id=id, kind=kind, text=text, offset=offset)


def test_a_streamed_message_is_one_block_and_ends_as_the_log_has_it() -> None:
    log = listed(said("hi"))
    for delta in (part("Hel"), part("lo", 3), part("lo", 3), part(" lost", 90)):
        log.add_delta(delta)
    assert shown(log) == ["hi", "Hello"]
    log.add(make_entry("s", 2, answered("Hello you"), 1))
    log.add_delta(part("too late", 9))
    assert shown(log) == ["hi", "Hello you"]


def test_what_the_log_has_first_is_above_a_message_that_is_still_streamed() -> None:
    log = listed(said("hi"))
    log.add_delta(part("I will"))
    log.add(make_entry("s", 2, called(), 1))
    assert shown(log) == ["hi", "Edit pending", "I will"]
    log.add(make_entry("s", 3, answered("I will."), 1))
    assert shown(log) == ["hi", "Edit pending", "I will."]


def test_the_rest_of_a_stream_goes_with_its_turn() -> None:
    log = listed(said("hi"))
    log.add_delta(part("never stored"))
    log.add(make_entry("s", 2, ev.TurnEnd(turn_id="t", reason=TurnEndReason.CANCELLED), 1))
    assert shown(log) == ["hi", "— turn ended: cancelled"]


def test_a_tool_call_is_one_card_with_each_diff_once() -> None:
    diff = ev.DiffBlock(path="a", old_text="1", new_text="2")
    log = listed(called("t", diff))
    log.add_delta(part("working", kind=DeltaKind.TOOL_OUTPUT, id="t"))
    (card,) = log.blocks
    assert isinstance(card, ToolBlock)
    assert card.live_output == "working"
    log.add(make_entry("s", 2, done("t", diff, ev.TextBlock(text="ok")), 1))
    assert card.content == (diff, ev.TextBlock(text="ok"))
    assert (card.live_output, card.status) == ("", ToolStatus.COMPLETED)


def test_an_older_page_gets_what_the_newer_one_says_about_it() -> None:
    asked = Approval(id="a", kind=ApprovalKind.PERMISSION, title="Edit", created_at=1)
    log = BlockList()
    for entry in entries(
        done(), ev.ApprovalResolved(approval_id="a", outcome=Outcome.DENIED), answered("x"), first=4
    ):
        log.add(entry)
    assert shown(log) == ["x"]
    log.prepend(entries(said("hi"), called(), ev.ApprovalRequested(approval=asked)))
    assert shown(log) == ["hi", "Edit completed", "? denied", "x"]
    assert log.first_seq == 1


def test_a_rewind_removes_what_it_cut_off() -> None:
    log = listed(said("one"), answered("1", "a"), said("two"), answered("2", "b"))
    rewound = ev.Rewound(first_seq=3, files=ev.FilesRestored(status=ev.FileRestore.SKIPPED))
    log.add(make_entry("s", 5, rewound, 1))
    assert shown(log)[:2] == ["one", "1"]
    assert len(log.blocks) == 3


def test_a_to_do_list_is_shown_once_in_a_turn() -> None:
    def plan(status: str) -> ev.Plan:
        return ev.Plan(entries=(ev.PlanEntry(content="look", status=status),))

    end = ev.TurnEnd(turn_id="t", reason=TurnEndReason.END_TURN)
    assert shown(listed(plan("pending"), plan("completed"), end, plan("pending"))) == ["completed", "pending"]
