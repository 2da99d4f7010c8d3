"""A log told in Droid's words: each thing once, in order, and the end last."""

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


class Story:
    """A session that is told."""

    def __init__(self, dialect: Dialect = DEFAULT_DIALECT) -> None:
        state = SessionState(id=SESSION, agent="demo", directory="/desk")
        self.builder = NotificationBuilder(state, Transcript("/desk"), dialect, name=SESSION, use_levels=True)
        self.told: list[dict[str, Any]] = []

    def happens(self, *events: SessionEvent) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        for event in events:
            seq = self.builder.state.seq + 1
            entry = Entry(id=f"e:{seq}", seq=seq, role=role_of(event), created_at=seq * 1000, content=event)
            told += [_plain(telling) for telling in self.builder.for_entry(entry)]
        self.told += told
        return told

    def streams(self, text: str, offset: int, after: int | None = None, **more: Any) -> list[dict[str, Any]]:
        place = self.builder.state.seq if after is None else after
        kind = more.pop("kind", DeltaKind.MESSAGE)
        delta = Delta(message_id=more.pop("id", "m"), kind=kind, text=text, offset=offset, after=place)
        told = [_plain(telling) for telling in self.builder.for_delta(delta)]
        self.told += told
        return told

    def begins(self) -> None:
        self.happens(ev.TurnStart(turn_id="t", item_id="i"), ev.UserMessage(item_id="i", text="hello"))

    def ends(self, reason: TurnEndReason = TurnEndReason.END_TURN, error: str | None = None) -> list[str]:
        return kinds(self.happens(ev.TurnEnd(turn_id="t", reason=reason, error=error)))


def _plain(telling: Any) -> dict[str, Any]:
    built = msgspec.to_builtins(telling)
    return {"type": "request", **built} if "method" in built else built


def kinds(told: list[dict[str, Any]]) -> list[str]:
    return [note.get("newState") or note["type"] for note in told]


def text(told: list[dict[str, Any]]) -> str:
    return "".join(note["textDelta"] for note in told if note["type"] == "assistant_text_delta")


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_fragment_waits_for_what_came_before_it(story: Story) -> None:
    story.begins()
    call = ev.ToolCall(tool_call_id="c", title="ls", tool_kind=ToolKind.EXECUTE, status=ToolStatus.PENDING)
    seq = story.builder.state.seq
    assert story.streams("done", 0, after=seq + 2) == []
    assert "assistant_text_delta" not in kinds(story.happens(call))
    done = story.happens(ev.ToolCallUpdate(tool_call_id="c", status=ToolStatus.COMPLETED))
    assert kinds(done) == ["tool_result", "streaming_assistant_message", "assistant_text_delta"]


def test_each_character_is_told_once(story: Story) -> None:
    story.begins()
    story.streams("Hel", 0)
    story.streams("Hello", 0)
    assert story.told[-1]["textDelta"] == "Hello", "what begins anew is told anew"
    story.streams("lo wor", 3)
    assert story.told[-1]["textDelta"] == " wor"
    assert story.streams("after a hole", 99) == []
    told = story.happens(ev.AgentMessage(message_id="m", text="Hello world"))
    assert kinds(told) == ["assistant_text_delta", "assistant_text_complete", "create_message"]
    assert told[0]["textDelta"] == "ld"


def test_what_was_not_streamed_is_still_told_as_a_stream(story: Story) -> None:
    story.begins()
    assert text(story.happens(ev.AgentMessage(message_id="m", text="whole"))) == "whole"


def test_thoughts_stand_before_the_text_they_lead_to(story: Story) -> None:
    story.begins()
    story.streams("hm", 0, id="t1", kind=DeltaKind.THOUGHT)
    story.happens(ev.AgentThought(message_id="t1", text="hm"))
    story.streams("so", 0, id="m1")
    told = story.happens(ev.AgentMessage(message_id="m1", text="so"))
    message = told[-1]["message"]
    assert [block["type"] for block in message["content"]] == ["thinking", "text"]
    deltas = [note for note in story.told if note["type"].endswith("_delta")]
    assert [(note["messageId"], note["blockIndex"]) for note in deltas] == [
        (message["id"], 0),
        (message["id"], 1),
    ]


def test_thoughts_that_lead_nowhere_are_told_before_the_end(story: Story) -> None:
    story.begins()
    story.happens(ev.AgentThought(message_id="t1", text="hm"))
    assert story.ends() == ["create_message", "agent_turn_completed", "idle"]


def test_the_end_is_the_last_word(story: Story) -> None:
    story.begins()
    story.happens(ev.AgentMessage(message_id="m", text="x"), ev.UsageUpdate(input_tokens=3, output_tokens=2))
    assert story.ends() == ["agent_turn_completed", "idle"]
    completed = story.told[-2]
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
def test_every_reason_has_a_word(story: Story, reason: TurnEndReason, word: str) -> None:
    story.begins()
    story.ends(reason)
    assert story.told[-2]["reason"] == word


def test_a_failure_is_told_and_shown(story: Story) -> None:
    story.begins()
    assert story.ends(TurnEndReason.FAILED, "no key") == [
        "error",
        "create_message",
        "agent_turn_completed",
        "idle",
    ]
    assert story.told[-3]["message"]["visibility"] == "user_only"


def asked(name: str, kind: ApprovalKind = ApprovalKind.PERMISSION, **more: Any) -> ev.ApprovalRequested:
    options = (
        Option(id="y", name="Allow", kind=OptionKind.ALLOW_ONCE),
        Option(id="n", name="Reject", kind=OptionKind.REJECT_ONCE),
    )
    return ev.ApprovalRequested(
        approval=Approval(id=name, kind=kind, title="it", created_at=1, options=options, **more)
    )


def test_two_questions_at_once_keep_the_client_waiting_until_both_are_answered(story: Story) -> None:
    story.begins()
    assert kinds(story.happens(asked("a"), asked("b")))[-1] == "request"
    first = story.happens(ev.ApprovalResolved(approval_id="a", outcome=Outcome.APPROVED))
    assert "executing_tool" not in kinds(first)
    second = story.happens(ev.ApprovalResolved(approval_id="b", outcome=Outcome.DENIED))
    assert "streaming_assistant_message" in kinds(second)
    resolved = [note for note in story.told if note["type"] == "permission_resolved"]
    assert [note["selectedOption"] for note in resolved] == ["proceed_once", "cancel"]


def test_an_answer_of_somebody_else_is_told_as_what_it_was(story: Story) -> None:
    story.begins()
    story.happens(asked("a"))
    story.builder.record_answer("a", "proceed_once", None)
    told = story.happens(ev.ApprovalResolved(approval_id="a", outcome=Outcome.DENIED, by="web"))
    (resolved,) = [note for note in told if note["type"] == "permission_resolved"]
    assert resolved["selectedOption"] == "cancel"


@pytest.mark.parametrize(
    ("version", "order"),
    [
        ("0.57", ["settings_updated", "permission_resolved", "tool_result"]),
        ("0.215", ["permission_resolved", "settings_updated", "tool_result"]),
    ],
)
def test_the_order_after_a_plan_is_the_versions(version: str, order: list[str]) -> None:
    story = Story(DIALECTS[version])
    story.happens(ev.ModeUpdate(permission_mode=PermissionMode.PLAN))
    story.begins()
    story.happens(asked("a", ApprovalKind.PLAN, plan="# Plan"))
    story.builder.record_answer("a", "proceed_auto_run_low", PermissionMode.ACCEPT_EDITS)
    told = story.happens(
        ev.ApprovalResolved(approval_id="a", outcome=Outcome.APPROVED),
        ev.ModeUpdate(permission_mode=PermissionMode.ACCEPT_EDITS),
    )
    assert [kind for kind in kinds(told) if kind in order] == order


def test_what_adapters_notice_is_told_in_droids_words(story: Story) -> None:
    servers = [{"name": "linear", "status": "connecting"}]
    told = story.happens(
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


def test_a_tool_has_one_result(story: Story) -> None:
    story.begins()
    call = ev.ToolCall(tool_call_id="c", title="ls", tool_kind=ToolKind.READ, status=ToolStatus.COMPLETED)
    again = ev.ToolCallUpdate(tool_call_id="c", status=ToolStatus.FAILED)
    assert kinds(story.happens(call, call, again)).count("tool_result") == 1


def test_a_list_of_things_to_do_is_told_as_the_tool_for_it(story: Story) -> None:
    story.begins()
    entries = (ev.PlanEntry(content="look", status="completed"), ev.PlanEntry(content="act"))
    told = story.happens(ev.Plan(entries=entries))
    (call,) = [note for note in told if note["type"] == "tool_call"]
    assert call["toolUse"]["input"] == {"todos": "1. [completed] look\n2. [pending] act"}
    assert "tool_result" in kinds(told)
    todo = ev.ToolCall(
        tool_call_id="c", title="todo", tool_kind=ToolKind.THINK, status=ToolStatus.PENDING, tool="TodoWrite"
    )
    story.happens(todo)
    assert story.happens(ev.Plan(entries=entries)) == [], "an agent that has this tool itself says it itself"
