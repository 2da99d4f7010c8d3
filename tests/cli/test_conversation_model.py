"""The view model of an attached session: what it waits for, its queue, its state and its status line."""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.cli.fullscreen.status_line import status_line
from farsteer.cli.terminal.conversation import Conversation
from farsteer.client.live_events import LiveEvent, decode_event
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.approvals import Approval, ApprovalKind, Outcome
from farsteer.core.events import SessionEvent, TurnEndReason, make_entry
from farsteer.core.live_events import Clearing, MessagesClearedEvent
from farsteer.core.wire import to_builtins

VIEW: dict[str, Any] = {
    "id": "12345678-0000-0000-0000-000000000000", "namespace": "default", "machineId": "m", "agent": "demo",
    "directory": "/p", "status": "idle", "active": True, "thinking": False, "title": None, "createdAt": 1,
    "updatedAt": 1, "seq": 10, "permissionMode": "default", "model": "demo-1", "modelReasoningEffort": None,
    "source": "cli", "sessionType": "simple", "worktree": None, "nativeId": None, "turnId": None, "queue": [],
    "approvals": [], "pendingRequestsCount": 0, "usage": {}, "commands": [], "lastMessage": None, "error": None,
    "permissionTimeout": None,
}  # fmt: skip


def view(**fields: Any) -> SessionView:
    return msgspec.convert({**VIEW, **fields}, SessionView)


def approval(id: str = "a") -> Approval:
    return Approval(id=id, kind=ApprovalKind.PERMISSION, title="Run ls", created_at=1)


def add(conversation: Conversation, *events: SessionEvent, first: int = 11) -> None:
    for seq, event in enumerate(events, first):
        conversation.apply(make_entry("s", seq, event, 1000))


def update(conversation: Conversation, **data: Any) -> None:
    body = {"type": "session-updated", "namespace": "default", "sessionId": "s", "cursor": "e-1"}
    conversation.apply(decode_event(msgspec.json.encode({**body, "data": {**data, "partial": True}})))


def item(id: str, state: str = "queued") -> dict[str, Any]:
    return {"id": id, "text": f"text of {id}", "createdAt": 1, "state": state}


def test_approvals_are_answered_one_after_the_other() -> None:
    conversation = Conversation(view(approvals=[to_builtins(approval("old"))]))
    add(conversation, ev.TurnStart(turn_id="t"), ev.ApprovalRequested(approval=approval("new")))
    assert conversation.state_text == "waits for you"
    assert [*conversation.prompts] == ["old", "new"]
    add(conversation, ev.ApprovalResolved(approval_id="old", outcome=Outcome.DENIED), first=13)
    assert conversation.prompt is conversation.prompts["new"]
    add(conversation, ev.TurnEnd(turn_id="t", reason=TurnEndReason.CANCELLED), first=14)
    assert conversation.prompt is None
    assert not conversation.working


def test_an_approval_of_the_past_is_not_asked_again() -> None:
    conversation = Conversation(view())
    add(conversation, ev.ApprovalRequested(approval=approval()), first=5)
    assert conversation.prompt is None


def test_the_queue_follows_its_changes() -> None:
    conversation = Conversation(view(queue=[item("a"), item("b")]))
    update(conversation, queueChanges=[{"id": "c", "position": 2, "item": item("c")}])
    update(conversation, queueChanges=[{"id": "b", "position": 0}, {"id": "a"}])
    assert [one.id for one in conversation.waiting] == ["b", "c"]
    update(conversation, queue=[item("c", "handed_over")])
    assert conversation.waiting == []


def test_settings_and_the_connection_of_the_machine() -> None:
    conversation = Conversation(view())
    update(conversation, status="unreachable", model="demo-2", permissionMode="plan", seq=99)
    assert conversation.state_text == "machine not connected"
    assert (conversation.session.model, conversation.session.permission_mode) == ("demo-2", "plan")
    add(conversation, ev.ApprovalRequested(approval=approval()))
    assert conversation.prompt is not None, "an entry that is announced before it arrives is new nevertheless"


def test_a_change_of_a_newer_hub_is_ignored() -> None:
    conversation = Conversation(view())
    update(conversation, status="meditating")
    assert conversation.state_text == "idle"


def test_cleared_messages_disappear() -> None:
    conversation = Conversation(view())
    add(conversation, *(ev.UserMessage(item_id=text, text=text) for text in ("one", "two", "three")))
    cleared = MessagesClearedEvent(
        namespace="default", cursor="e-1", session_id="s", data=Clearing(cleared_seq=12, remaining=1)
    )
    conversation.apply(LiveEvent("messages-cleared", content=cleared))
    assert conversation.sent_texts == ["three"]


def test_the_status_line_keeps_what_matters_in_any_width() -> None:
    usage = {"inputTokens": 12_000, "contextUsed": 30, "contextSize": 100}
    conversation = Conversation(view(usage=usage, permissionMode="yolo"))

    def line(width: int, *, connected: bool = True) -> str:
        return status_line(conversation, "a\x1b[2Jbox", connected=connected, unread=False, width=width).plain

    assert (
        line(100) == "idle · demo · demo-1 · yolo · 12.0k tokens, context 30% · a[2Jbox · connected · F1 help"
    )
    assert line(60) == "idle · demo · demo-1 · yolo · a[2Jbox · F1 help"
    assert line(20) == "idle · demo · yolo"
    assert line(30, connected=False).startswith("NOT CONNECTED, trying again")
