"""A session's entries as notifications: each once, in order, with the end of the turn last."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Outcome
from farsteer.core.events import Delta, DeltaKind, Entry, SessionEvent, ToolStatus, TurnEndReason, role_of
from farsteer.core.modes import PermissionMode, ToolKind
from farsteer.core.session import SessionState
from farsteer.faces.droid.notifications import NotificationBuilder
from farsteer.faces.droid.protocol import DEFAULT_DIALECT, DIALECTS, Dialect
from farsteer.faces.droid.transcript import Transcript

SESSION = "11111111-1111-4111-8111-111111111111"


class Session:
    """A session whose entries go through a `NotificationBuilder`."""

    def __init__(self, dialect: Dialect = DEFAULT_DIALECT) -> None:
        state = SessionState(id=SESSION, agent="demo", directory="/project")
        self.builder = NotificationBuilder(
            state, Transcript("/project"), dialect, name=SESSION, use_levels=True
        )
        self.sent: list[dict[str, Any]] = []

    def append(self, *events: SessionEvent) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        for event in events:
            seq = self.builder.state.seq + 1
            entry = Entry(id=f"e:{seq}", seq=seq, role=role_of(event), created_at=seq * 1000, content=event)
            told += [_to_builtins(one) for one in self.builder.for_entry(entry)]
        self.sent += told
        return told

    def stream(self, text: str, offset: int, after: int | None = None, **more: Any) -> list[dict[str, Any]]:
        place = self.builder.state.seq if after is None else after
        kind = more.pop("kind", DeltaKind.MESSAGE)
        delta = Delta(message_id=more.pop("id", "m"), kind=kind, text=text, offset=offset, after=place)
        told = [_to_builtins(one) for one in self.builder.for_delta(delta)]
        self.sent += told
        return told

    def begin_turn(self) -> None:
        self.append(ev.TurnStart(turn_id="t", item_id="i"), ev.UserMessage(item_id="i", text="hello"))

    def end_turn(self, reason: TurnEndReason = TurnEndReason.END_TURN, error: str | None = None) -> list[str]:
        return kinds(self.append(ev.TurnEnd(turn_id="t", reason=reason, error=error)))


def _to_builtins(outgoing: Any) -> dict[str, Any]:
    built = msgspec.to_builtins(outgoing)
    return {"type": "request", **built} if "method" in built else built


def kinds(told: list[dict[str, Any]]) -> list[str]:
    return [note.get("newState") or note["type"] for note in told]


def text(told: list[dict[str, Any]]) -> str:
    return "".join(note["textDelta"] for note in told if note["type"] == "assistant_text_delta")


@pytest.fixture
def session() -> Session:
    return Session()


def test_a_delta_waits_for_the_entries_before_it(session: Session) -> None:
    session.begin_turn()
    call = ev.ToolCall(tool_call_id="c", title="ls", tool_kind=ToolKind.EXECUTE, status=ToolStatus.PENDING)
    seq = session.builder.state.seq
    assert session.stream("done", 0, after=seq + 2) == []
    assert "assistant_text_delta" not in kinds(session.append(call))
    done = session.append(ev.ToolCallUpdate(tool_call_id="c", status=ToolStatus.COMPLETED))
    assert kinds(done) == ["tool_result", "streaming_assistant_message", "assistant_text_delta"]


def test_each_character_is_sent_once(session: Session) -> None:
    session.begin_turn()
    session.stream("Hel", 0)
    session.stream("Hello", 0)
    assert session.sent[-1]["textDelta"] == "Hello", "a delta from the start sends everything again"
    session.stream("lo wor", 3)
    assert session.sent[-1]["textDelta"] == " wor"
    assert session.stream("after a hole", 99) == []
    told = session.append(ev.AgentMessage(message_id="m", text="Hello world"))
    assert kinds(told) == ["assistant_text_delta", "assistant_text_complete", "create_message"]
    assert told[0]["textDelta"] == "ld"


def test_a_message_that_was_not_streamed_is_sent_as_a_delta(session: Session) -> None:
    session.begin_turn()
    assert text(session.append(ev.AgentMessage(message_id="m", text="whole"))) == "whole"


def test_thoughts_come_before_the_text_in_one_message(session: Session) -> None:
    session.begin_turn()
    session.stream("hm", 0, id="t1", kind=DeltaKind.THOUGHT)
    session.append(ev.AgentThought(message_id="t1", text="hm"))
    session.stream("so", 0, id="m1")
    told = session.append(ev.AgentMessage(message_id="m1", text="so"))
    message = told[-1]["message"]
    assert [block["type"] for block in message["content"]] == ["thinking", "text"]
    deltas = [note for note in session.sent if note["type"].endswith("_delta")]
    assert [(note["messageId"], note["blockIndex"]) for note in deltas] == [
        (message["id"], 0),
        (message["id"], 1),
    ]


def test_thoughts_without_a_text_are_sent_before_the_end(session: Session) -> None:
    session.begin_turn()
    session.append(ev.AgentThought(message_id="t1", text="hm"))
    assert session.end_turn() == ["create_message", "agent_turn_completed", "idle"]


def test_the_end_of_the_turn_comes_last(session: Session) -> None:
    session.begin_turn()
    session.append(ev.AgentMessage(message_id="m", text="x"), ev.UsageUpdate(input_tokens=3, output_tokens=2))
    assert session.end_turn() == ["agent_turn_completed", "idle"]
    completed = session.sent[-2]
    assert completed["tokenUsage"]["inputTokens"] == 3
    assert (completed["turnId"], completed["durationMs"]) == ("i", 4000)


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (TurnEndReason.END_TURN, "completed"),
        (TurnEndReason.MAX_TOKENS, "completed"),
        (TurnEndReason.CANCELLED, "cancelled"),
        (TurnEndReason.REFUSAL, "prompt_rejected"),
        (TurnEndReason.FAILED, "error"),
        (TurnEndReason.CRASHED, "error"),
        (TurnEndReason.LOST, "error"),
    ],
)
def test_every_reason_is_mapped(session: Session, reason: TurnEndReason, word: str) -> None:
    session.begin_turn()
    session.end_turn(reason)
    assert session.sent[-2]["reason"] == word


def test_a_failure_is_an_error_and_a_message(session: Session) -> None:
    session.begin_turn()
    assert session.end_turn(TurnEndReason.FAILED, "no key") == [
        "error",
        "create_message",
        "agent_turn_completed",
        "idle",
    ]
    assert session.sent[-3]["message"]["visibility"] == "user_only"


def asked(name: str, kind: ApprovalKind = ApprovalKind.PERMISSION, **more: Any) -> ev.ApprovalRequested:
    options = (
        Option(id="y", name="Allow", kind=OptionKind.ALLOW_ONCE),
        Option(id="n", name="Reject", kind=OptionKind.REJECT_ONCE),
    )
    return ev.ApprovalRequested(
        approval=Approval(id=name, kind=kind, title="it", created_at=1, options=options, **more)
    )


def test_the_client_waits_until_both_of_two_approvals_are_resolved(session: Session) -> None:
    session.begin_turn()
    assert kinds(session.append(asked("a"), asked("b")))[-1] == "request"
    first = session.append(ev.ApprovalResolved(approval_id="a", outcome=Outcome.APPROVED))
    assert "executing_tool" not in kinds(first)
    second = session.append(ev.ApprovalResolved(approval_id="b", outcome=Outcome.DENIED))
    assert "streaming_assistant_message" in kinds(second)
    resolved = [note for note in session.sent if note["type"] == "permission_resolved"]
    assert [note["selectedOption"] for note in resolved] == ["proceed_once", "cancel"]


def test_the_answer_of_another_client_is_sent(session: Session) -> None:
    session.begin_turn()
    session.append(asked("a"))
    session.builder.record_answer("a", "proceed_once", None)
    told = session.append(ev.ApprovalResolved(approval_id="a", outcome=Outcome.DENIED, by="web"))
    (resolved,) = [note for note in told if note["type"] == "permission_resolved"]
    assert resolved["selectedOption"] == "cancel"


@pytest.mark.parametrize(
    ("version", "order"),
    [
        ("0.57", ["settings_updated", "permission_resolved", "tool_result"]),
        ("0.215", ["permission_resolved", "settings_updated", "tool_result"]),
    ],
)
def test_the_order_after_a_plan_depends_on_the_dialect(version: str, order: list[str]) -> None:
    session = Session(DIALECTS[version])
    session.append(ev.ModeUpdate(permission_mode=PermissionMode.PLAN))
    session.begin_turn()
    session.append(asked("a", ApprovalKind.PLAN, plan="# Plan"))
    session.builder.record_answer("a", "proceed_auto_run_low", PermissionMode.ACCEPT_EDITS)
    told = session.append(
        ev.ApprovalResolved(approval_id="a", outcome=Outcome.APPROVED),
        ev.ModeUpdate(permission_mode=PermissionMode.ACCEPT_EDITS),
    )
    assert [kind for kind in kinds(told) if kind in order] == order


def test_notices_become_droids_notifications(session: Session) -> None:
    servers = [{"name": "linear", "status": "connecting"}]
    told = session.append(
        ev.Notice(text="again", code="model_retry", meta={"attempt": 2, "reason": "overloaded"}),
        ev.Notice(text="", code="mcp_status", meta={"servers": servers, "summary": {"total": 1}}),
        ev.Notice(
            text="sign in", code="mcp_auth_required", meta={"serverName": "linear", "authUrl": "https://x"}
        ),
        ev.Notice(text="broken", level="error", code="agent_error"),
        ev.Notice(text="just so"),
        ev.Other(native_kind="telepathy", data={"strength": 3}),
    )
    assert kinds(told) == [
        "llm_retry", "mcp_status_changed", "mcp_auth_required", "error", "create_message", "create_message",
        "telepathy",
    ]  # fmt: skip
    assert told[0] == {"type": "llm_retry", "attempt": 2, "reason": "overloaded"}
    assert told[-1] == {"type": "telepathy", "strength": 3}


def test_a_tool_has_one_result(session: Session) -> None:
    session.begin_turn()
    call = ev.ToolCall(tool_call_id="c", title="ls", tool_kind=ToolKind.READ, status=ToolStatus.COMPLETED)
    again = ev.ToolCallUpdate(tool_call_id="c", status=ToolStatus.FAILED)
    assert kinds(session.append(call, call, again)).count("tool_result") == 1


def test_a_plan_is_sent_as_a_todo_tool_call(session: Session) -> None:
    session.begin_turn()
    entries = (ev.PlanEntry(content="look", status="completed"), ev.PlanEntry(content="act"))
    told = session.append(ev.Plan(entries=entries))
    (call,) = [note for note in told if note["type"] == "tool_call"]
    assert call["toolUse"]["input"] == {"todos": "1. [completed] look\n2. [pending] act"}
    assert "tool_result" in kinds(told)
    todo = ev.ToolCall(
        tool_call_id="c", title="todo", tool_kind=ToolKind.THINK, status=ToolStatus.PENDING, tool="TodoWrite"
    )
    session.append(todo)
    assert session.append(ev.Plan(entries=entries)) == [], "an agent with this tool has sent it already"
