"""Each field of a session's view is listed once, and a change of its source is published."""

import json
from typing import Any

import pytest
from msgspec.structs import fields, replace

from farsteer.core import events as ev
from farsteer.core.api import ForkedFrom, SessionView
from farsteer.core.approvals import Approval, ApprovalKind
from farsteer.core.events import SessionStatus
from farsteer.core.mcp import McpServer
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import ItemState, QueueChange, QueueItem, QueueRef
from farsteer.core.session import Fork, SessionSpec, SessionState, Usage, Worktree
from farsteer.core.wire import encode, to_builtins
from farsteer.hub.rules.view import (
    FIELDS,
    FromRow,
    FromState,
    SessionRow,
    encode_queue_change,
    encode_state_change,
    encode_status_change,
    session_view,
)

WAITING = QueueItem(id="w", text="waiting", created_at=1)
QUEUED = QueueItem(id="q", text="queued", created_at=1, state=ItemState.QUEUED)
OLD = SessionState(id="s", agent="demo", directory="/old", status=SessionStatus.IDLE, seq=1)
NEW_VALUES: dict[str, object] = {
    "agent": "other",
    "directory": "/new",
    "status": SessionStatus.WORKING,
    "title": "a title",
    "permission_mode": PermissionMode.PLAN,
    "model": "a model",
    "effort": ReasoningEffort.HIGH,
    "worktree": Worktree(base="/b", path="/p", branch="b", name="n"),
    "native_id": "n",
    "in_terminal": True,
    "handed_off_to": ("0f9d4a52-5c1e-4f6e-9d3a-0c8b8f0d1a11",),
    "turn_id": "t",
    "approvals": (Approval(id="a", kind=ApprovalKind.PERMISSION, title="may I?", created_at=1),),
    "usage": Usage(input_tokens=3),
    "commands": (ev.SlashCommand(name="help", description="help"),),
    "error": "an error",
}
"""A value that differs from the one in `OLD`, for each attribute that a view shows."""


def row(state: SessionState = OLD, **changes: Any) -> SessionRow:
    spec = SessionSpec(id="s", machine_id="m", directory="/old", source="a test", permission_timeout=5.0)
    values: dict[str, Any] = {
        "id": "s", "namespace": "ns", "machine_id": "m", "reachable": True, "seq": 9,
        "created_at": 1, "updated_at": 2, "spec": spec, "state": state, "items": (),
        "approvals": state.approvals, "last_message": "hi",
    }  # fmt: skip
    return SessionRow(**values | changes)


def change(new: SessionState, old: SessionState = OLD) -> dict[str, Any] | None:
    encoded = encode_state_change(old, new, None, seq=2, updated_at=3, last_message="hi")
    return None if encoded is None else json.loads(encoded)


def test_every_field_of_a_view_has_a_source() -> None:
    assert set(FIELDS) == {field.name for field in fields(SessionView)}


def test_every_attribute_that_a_view_shows_is_tried_here() -> None:
    shown = {source.attribute for source in FIELDS.values() if isinstance(source, FromState)}
    assert shown == set(NEW_VALUES)
    assert shown <= {field.name for field in fields(SessionState)}


@pytest.mark.parametrize("attribute", NEW_VALUES)
def test_a_changed_attribute_is_published_as_the_view_shows_it(attribute: str) -> None:
    new = replace(OLD, **{attribute: NEW_VALUES[attribute]})
    published = change(new)
    assert published is not None
    view = json.loads(encode(session_view(row(new, seq=2, updated_at=3))))
    names = {field.name: field.encode_name for field in fields(SessionView)}
    expected = {
        names[name]
        for name, source in FIELDS.items()
        if isinstance(source, FromState) and source.attribute == attribute
    }
    assert published.keys() == expected | {"partial", "seq", "updatedAt", "lastMessage"}
    for name in published.keys() - {"partial"}:
        assert published[name] == view[name]


@pytest.mark.parametrize("name", [name for name, source in FIELDS.items() if isinstance(source, FromRow)])
def test_what_is_no_state_is_fixed_or_in_every_update(name: str) -> None:
    carried = {"seq", "updated_at", "last_message", "queue"}
    fixed = {
        "id", "namespace", "machine_id", "created_at", "source", "session_type", "permission_timeout", "forked_from",
        "handed_off_from",
        "mcp_servers", "additional_directories",
    }  # fmt: skip
    assert name in carried | fixed, "nobody is told when this changes: list it as FromState"


def test_a_new_entry_alone_is_no_change() -> None:
    assert change(replace(OLD, seq=2, last_message="new", generation=3, registered=True)) is None


def test_a_rewind_is_published_for_its_last_message() -> None:
    update = change(OLD, replace(OLD, last_message="removed"))
    assert update == {"partial": True, "seq": 2, "updatedAt": 3, "lastMessage": "hi"}


def test_an_unreachable_session_shows_neither_its_status_nor_a_turn() -> None:
    working = replace(OLD, status=SessionStatus.WORKING)
    reachable, unreachable = session_view(row(working)), session_view(row(working, reachable=False))
    assert (reachable.status, reachable.active, reachable.thinking) == (SessionStatus.WORKING, True, True)
    assert (unreachable.status, unreachable.active, unreachable.thinking) == (
        SessionStatus.UNREACHABLE, False, False,
    )  # fmt: skip
    assert json.loads(encode_status_change(SessionStatus.WAITING)) == {
        "partial": True, "status": "waiting", "active": True, "thinking": True,
    }  # fmt: skip


def test_the_queue_is_what_the_runner_has_and_then_what_it_has_not_confirmed() -> None:
    state = replace(OLD, queue=(QueueRef("q"),))
    assert session_view(row(state, items=(QUEUED, WAITING))).queue == (QUEUED, WAITING)


def test_a_short_queue_is_published_whole_and_a_long_one_by_its_changes() -> None:
    ended = replace(WAITING, id="e", state=ItemState.FAILED)
    left = QueueChange("e", ItemState.FAILED)
    update = json.loads(encode_queue_change(left, (QUEUED, WAITING), updated_at=3, ended=ended))
    assert [item["id"] for item in update.pop("queue")] == ["q", "w", "e"]
    assert update == {"partial": True, "updatedAt": 3}
    update = json.loads(encode_queue_change(left, None, updated_at=3, ended=ended))
    assert update.pop("queueChanges") == [{"id": "e", "state": "failed"}]
    assert update == {"partial": True, "updatedAt": 3}
    update = change(replace(OLD, queue=(QueueRef("q"),)))
    assert update is not None
    assert update["queueChanges"] == [{"id": "q", "state": "queued", "position": 0}]
    assert "queue" not in update


def test_the_spec_is_shown_without_secrets() -> None:
    spec = replace(
        row().spec,
        fork=Fork(session_id="source", seq=4, native_id="n"),
        mcp_servers=(McpServer(name="files", command="files", env={"TOKEN": "secret"}),),
        additional_directories=("/more",),
    )
    view = session_view(row(spec=spec))
    assert view.forked_from == ForkedFrom(session_id="source", seq=4)
    assert (view.mcp_servers, view.additional_directories) == (("files",), ("/more",))
    assert (view.source, view.permission_timeout) == ("a test", 5.0)
    assert "secret" not in str(to_builtins(view))
