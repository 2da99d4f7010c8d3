"""Permissions without a process: which option is chosen, and what reaches a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import decode

from farsteer.agents.acp.approvals import PendingApprovals
from farsteer.agents.acp.protocol import ElicitationParams, PermissionParams
from farsteer.agents.acp.settings import SessionSettings
from farsteer.agents.acp.translator import Translator
from farsteer.agents.base import ApprovalAsked, ApprovalWithdrawn
from farsteer.agents.catalog.definition import NativeModeNames
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Answer, Approval, Outcome, check_answer
from farsteer.core.errors import Conflict
from farsteer.core.modes import PermissionMode
from farsteer.core.wire import encode

ONCE = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
ALWAYS = {"optionId": "a", "name": "Always", "kind": "allow_always"}
NO = {"optionId": "n", "name": "No", "kind": "reject_once"}


class Desk:
    """The approvals of a session, with what they wrote and asked."""

    def __init__(self, folder: Path, mode: PermissionMode = PermissionMode.DEFAULT) -> None:
        self.output = TurnOutput()
        self.settings = SessionSettings("Sim", NativeModeNames(), mode, None, None)
        self.lines: list[dict[str, Any]] = []
        self.folder = folder
        translator = Translator(self.output, self.settings, lambda _: "")
        self.approvals = PendingApprovals(
            self.output,
            self.settings,
            translator,
            (str(folder),),
            lambda line: self.lines.append(json.loads(line)),
        )
        self.output.begin("turn")

    def ask(self, *options: dict[str, str], **call: Any) -> Approval | None:
        params = {"sessionId": "s", "toolCall": {"toolCallId": "c", **call}, "options": list(options)}
        self.approvals.ask_permission(7, decode(encode(params), type=PermissionParams))
        return self.asked()

    def asked(self) -> Approval | None:
        found = [one.approval for one in self.output.drain() if isinstance(one, ApprovalAsked)]
        return found[-1] if found else None

    def answer(self, approval: Approval | None, outcome: Outcome) -> None:
        assert approval is not None
        self.approvals.answer(approval, check_answer(approval, Answer(outcome=outcome)))

    @property
    def chosen(self) -> str | None:
        assert len(self.lines) == 1
        assert self.lines[0]["id"] == 7
        return self.lines[0]["result"]["outcome"].get("optionId")


@pytest.mark.parametrize(
    ("outcome", "chosen"),
    [(Outcome.APPROVED, "y"), (Outcome.APPROVED_FOR_SESSION, "a"), (Outcome.DENIED, "n"), (Outcome.TIMED_OUT, "n"),
     (Outcome.ABORT, "n")],
)  # fmt: skip
def test_the_option_is_chosen_by_its_kind(tmp_path: Path, outcome: Outcome, chosen: str) -> None:
    desk = Desk(tmp_path)
    desk.answer(desk.ask(ALWAYS, NO, ONCE, kind="execute"), outcome)
    assert desk.chosen == chosen


def test_a_plain_yes_never_selects_an_option_of_an_unknown_kind(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.answer(desk.ask({"optionId": "x", "name": "?", "kind": "allow_for_a_week"}, NO), Outcome.APPROVED)
    assert desk.chosen is None


def test_without_options_nothing_can_be_allowed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.answer(desk.ask(kind="edit"), Outcome.APPROVED)
    assert desk.lines[0]["result"] == {"outcome": {"outcome": "cancelled"}}


def test_a_mode_gives_no_lasting_yes_unless_it_allows_everything(tmp_path: Path) -> None:
    assert Desk(tmp_path, PermissionMode.SAFE_YOLO).ask(ALWAYS, NO, kind="execute") is not None
    free = Desk(tmp_path, PermissionMode.YOLO)
    assert free.ask(ALWAYS, NO, kind="execute") is None
    assert free.chosen == "a"


@pytest.mark.parametrize("mode", [PermissionMode.PLAN, PermissionMode.READ_ONLY])
@pytest.mark.parametrize("kind", ["edit", "execute", "delete", "other", "made_up", None])
def test_a_read_only_session_denies_everything_else(
    tmp_path: Path, mode: PermissionMode, kind: str | None
) -> None:
    desk = Desk(tmp_path, mode)
    assert desk.ask(ONCE, NO, kind=kind, locations=[{"path": str(tmp_path / "a")}]) is None
    assert desk.chosen == "n"


def test_a_tool_that_shows_a_change_is_an_edit_whatever_it_says(tmp_path: Path) -> None:
    diff = {"type": "diff", "path": str(tmp_path / "a"), "oldText": "a", "newText": "b"}
    desk = Desk(tmp_path, PermissionMode.READ_ONLY)
    assert desk.ask(ONCE, NO, kind="read", content=[diff]) is None
    assert desk.chosen == "n"


@pytest.mark.parametrize(
    ("path", "asks"),
    [("a.txt", False), ("sub/../a.txt", False), ("/etc/hosts", True), ("../x", True), (None, True)],
)
def test_edits_are_accepted_inside_of_the_directory_only(
    tmp_path: Path, path: str | None, asks: bool
) -> None:
    desk = Desk(tmp_path, PermissionMode.ACCEPT_EDITS)
    locations = [] if path is None else [{"path": path}]
    assert (desk.ask(ONCE, NO, kind="edit", locations=locations) is not None) is asks


def test_an_interrupt_cancels_what_is_open(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    approval = desk.ask(ONCE, NO, kind="execute")
    desk.approvals.cancel_all()
    assert desk.lines[0]["result"] == {"outcome": {"outcome": "cancelled"}}
    assert [one for one in desk.output.drain() if isinstance(one, ApprovalWithdrawn)]
    with pytest.raises(Conflict):
        desk.answer(approval, Outcome.APPROVED)


def test_the_agent_may_withdraw_its_request(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.ask(ONCE, NO, kind="execute") is not None
    desk.approvals.withdraw(8)
    assert desk.lines == []
    desk.approvals.withdraw(7)
    assert desk.chosen is None


def test_nobody_is_asked_between_turns(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.output.abandon()
    assert desk.ask(ONCE, NO, kind="execute") is None
    assert desk.chosen is None


def test_a_page_to_visit_is_shown_with_its_address(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.approvals.ask_question(
        7, ElicitationParams(mode="url", message="Log in", url="https://example.org/x")
    )
    approval = desk.asked()
    assert approval is not None
    assert approval.arguments == {"url": "https://example.org/x"}
    desk.answer(approval, Outcome.DENIED)
    assert desk.lines[0]["result"] == {"action": "decline"}


def test_a_question_of_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.approvals.ask_question(7, ElicitationParams(mode="hologram"))
    assert desk.lines[0]["error"]["code"] == -32602
