"""The lines that entries of a log are shown as."""

from __future__ import annotations

import pytest

from farsteer.cli.terminal.log_view import StreamedLines, entry_lines
from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind, Outcome
from farsteer.core.events import Entry, SessionEvent, ToolStatus, TurnEndReason, role_of
from farsteer.core.modes import PermissionMode, ToolKind
from farsteer.core.queue import Attachment, ItemState

HOSTILE = "\x1b]0;title\x07\x1b[2Jevil\r\u202e"
ASKED = Approval(
    id="a", kind=ApprovalKind.PERMISSION, title=f"run {HOSTILE}", created_at=1, arguments={"c": HOSTILE}
)

EVENTS: list[SessionEvent] = [
    ev.UserMessage(item_id="i", text=HOSTILE, attachments=(Attachment(name=HOSTILE),)),
    ev.AgentMessage(message_id="m", text=HOSTILE),
    ev.AgentThought(message_id="m", text=HOSTILE),
    ev.ToolCall(
        tool_call_id="t", title=HOSTILE, tool_kind=ToolKind.EXECUTE, status=ToolStatus.FAILED,
        content=(ev.TextBlock(text=HOSTILE), ev.DiffBlock(path=HOSTILE, old_text="a", new_text=HOSTILE)),
    ),
    ev.ToolCallUpdate(tool_call_id="t", status=ToolStatus.COMPLETED, content=(ev.TextBlock(text=HOSTILE),)),
    ev.Plan(entries=(ev.PlanEntry(content=HOSTILE),)),
    ev.ModeUpdate(permission_mode=PermissionMode.YOLO, model=HOSTILE),
    ev.TurnEnd(turn_id="t", reason=TurnEndReason.FAILED, error=HOSTILE),
    ev.ApprovalRequested(approval=ASKED),
    ev.ApprovalResolved(approval_id="a", outcome=Outcome.DENIED, by=HOSTILE, message=HOSTILE),
    ev.QueueUpdate(item_id="i", state=ItemState.FAILED, reason=HOSTILE),
    ev.LaunchEnd(generation=1, reason=HOSTILE, exit_code=1, stderr=HOSTILE),
    ev.StatusUpdate(status=ev.SessionStatus.FAILED, error=HOSTILE),
    ev.Notice(text=HOSTILE, level="error"),
    ev.Other(native_kind=HOSTILE),
]  # fmt: skip


def entry(content: SessionEvent) -> Entry:
    return Entry(id="1", seq=1, role=role_of(content), created_at=0, content=content)


def texts(*contents: SessionEvent) -> list[str]:
    tools: dict[str, str] = {}
    return [line.text for content in contents for line in entry_lines(entry(content), tools)]


@pytest.mark.parametrize("content", EVENTS, ids=lambda content: type(content).__name__)
def test_every_event_is_shown_and_cleaned(content: SessionEvent) -> None:
    lines = texts(content)
    assert lines
    joined = "".join(lines)
    assert not {"\x1b", "\x07", "\r", "\n", "\u202e"} & set(joined)


def test_a_tool_call_from_start_to_end() -> None:
    call = ev.ToolCall(
        tool_call_id="t", title="Run ls", tool_kind=ToolKind.EXECUTE, status=ToolStatus.PENDING
    )
    done = ev.ToolCallUpdate(
        tool_call_id="t",
        status=ToolStatus.FAILED,
        content=(ev.TextBlock(text="\n".join(map(str, range(50)))),),
    )
    lines = texts(call, ev.ToolCallUpdate(tool_call_id="t", status=ToolStatus.IN_PROGRESS), done)
    assert lines[0] == "● Run ls"
    assert lines[-2:] == ["  … 42 more lines", "  ✗ Run ls failed"]


def test_an_edit_shows_what_changed() -> None:
    diff = ev.DiffBlock(path="a.txt", old_text="one\ntwo\n", new_text="one\n2\n")
    done = ev.ToolCallUpdate(tool_call_id="t", status=ToolStatus.COMPLETED, content=(diff,))
    assert texts(done) == ["  a.txt", "  -two", "  +2"]
    huge = ev.DiffBlock(path="a.txt", new_text="x\n" * 100_000)
    assert texts(ev.ToolCallUpdate(tool_call_id="t", status=ToolStatus.COMPLETED, content=(huge,))) == [
        "  a.txt",
        "  0 lines before, 100000 now",
    ]


def test_who_answered_what() -> None:
    asked = Approval(id="a", kind=ApprovalKind.PERMISSION, title="run ls", created_at=1)
    resolved = ev.ApprovalResolved(approval_id="a", outcome=Outcome.TIMED_OUT)
    assert texts(ev.ApprovalRequested(approval=asked), resolved) == [
        "? allow? run ls",
        "  run ls: nobody answered in time: denied",
    ]


def test_only_a_failed_turn_prints_how_it_ended() -> None:
    assert texts(ev.TurnEnd(turn_id="t", reason=TurnEndReason.END_TURN)) == [""]
    assert texts(ev.TurnEnd(turn_id="t", reason=TurnEndReason.MAX_TOKENS))[0] == "— turn ended: max tokens"


def test_a_streamed_message_is_split_into_lines() -> None:
    stream = StreamedLines(thought=True)
    stream.add("first li")
    assert stream.take_finished() == []
    stream.add("ne\nsecond")
    assert [line.text for line in stream.take_finished()] == ["∴ first line"]
    assert stream.unfinished.text == "  second"
    assert [line.text for line in stream.take_all()] == ["  second"]
