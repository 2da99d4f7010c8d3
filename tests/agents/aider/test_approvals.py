"""Who answers what aider asks: the permission mode or a person."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farsteer.agents.aider.approvals import PendingApprovals
from farsteer.agents.aider.protocol import Ask
from farsteer.agents.base import ApprovalAsked, EventEmitted
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Answer, Outcome, check_answer
from farsteer.core.errors import Conflict
from farsteer.core.events import Notice
from farsteer.core.modes import PermissionMode, ToolKind

MODES = PermissionMode


class Asked:
    def __init__(self, mode: PermissionMode) -> None:
        self.output = TurnOutput()
        self.output.begin("turn")
        self.written: list[Any] = []
        self.pending = PendingApprovals(self.output, mode, lambda line: self.written.append(json.loads(line)))

    def ask(self, kind: ToolKind, *, inside: bool = True) -> str:
        """Return what became of it."""
        self.pending.handle_ask(Ask(ask="q", kind=kind, tool="t", title="do it", inside=inside))
        if self.written:
            return "allowed" if self.written.pop()["allow"] else "denied"
        return "asked"


@pytest.mark.parametrize(
    ("mode", "read", "edit", "outside", "command", "other"),
    [
        (MODES.DEFAULT, "allowed", "asked", "asked", "asked", "asked"),
        (MODES.ACCEPT_EDITS, "allowed", "allowed", "asked", "asked", "asked"),
        (MODES.SAFE_YOLO, "allowed", "allowed", "asked", "allowed", "asked"),
        (MODES.YOLO, "allowed", "allowed", "allowed", "allowed", "allowed"),
        (MODES.BYPASS, "allowed", "allowed", "allowed", "allowed", "allowed"),
        (MODES.PLAN, "allowed", "denied", "denied", "denied", "denied"),
        (MODES.READ_ONLY, "allowed", "denied", "denied", "denied", "denied"),
    ],
)
def test_modes(mode: PermissionMode, read: str, edit: str, outside: str, command: str, other: str) -> None:
    asked = Asked(mode)
    assert asked.ask(ToolKind.READ) == read
    assert asked.ask(ToolKind.EDIT) == edit
    assert asked.ask(ToolKind.EDIT, inside=False) == outside
    assert asked.ask(ToolKind.EXECUTE) == command
    assert asked.ask(ToolKind.OTHER) == other


def test_a_denial_of_the_mode_is_told() -> None:
    asked = Asked(MODES.READ_ONLY)
    asked.ask(ToolKind.EXECUTE)
    (out,) = asked.output.drain()
    assert isinstance(out, EventEmitted)
    assert isinstance(out.event, Notice)
    assert out.event.code == "read_only"


@pytest.mark.parametrize(
    ("outcome", "allowed"),
    [
        (Outcome.APPROVED, True), (Outcome.APPROVED_FOR_SESSION, True), (Outcome.DENIED, False),
        (Outcome.ABORT, False), (Outcome.TIMED_OUT, False), (Outcome.CANCELLED, False),
    ],
)  # fmt: skip
def test_only_an_approval_allows_and_it_is_answered_once(outcome: Outcome, allowed: bool) -> None:
    asked = Asked(MODES.DEFAULT)
    asked.ask(ToolKind.EXECUTE)
    (out,) = asked.output.drain()
    assert isinstance(out, ApprovalAsked)
    answer = check_answer(out.approval, Answer(outcome=outcome))
    assert json.loads(asked.pending.answer(out.approval, answer)) == {
        "do": "answer",
        "ask": "q",
        "allow": allowed,
    }
    with pytest.raises(Conflict):
        asked.pending.answer(out.approval, answer)
