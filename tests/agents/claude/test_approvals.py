"""Requests for permission as approvals, and each answer in Claude Code's form."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.base import ApprovalAsked, ApprovalWithdrawn, EventEmitted
from farsteer.agents.claude.approvals import GUARD, PendingApprovals
from farsteer.agents.claude.protocol import ControlRequest
from farsteer.agents.claude.settings import SettingsTracker
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Answer, Approval, ApprovalKind, OptionKind, Outcome, check_answer
from farsteer.core.errors import Conflict
from farsteer.core.events import ModeUpdate, Notice, SessionEvent
from farsteer.core.modes import PermissionMode, ToolKind

RULE = {
    "type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "make *"}], "behavior": "allow",
    "destination": "localSettings",
}  # fmt: skip
DIRECTORY = {"type": "addDirectories", "directories": ["/other"], "destination": "session"}
ACCEPT = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


class Desk:
    """The approvals of a session, with what was written to Claude Code."""

    def __init__(self, mode: PermissionMode, plans: Path) -> None:
        self.output = TurnOutput()
        self.output.begin("turn")
        self.settings = SettingsTracker(mode, None, None)
        self.written: list[dict[str, Any]] = []
        self.inputs: dict[str, dict[str, Any]] = {}
        self.approvals = PendingApprovals(
            self.output, self.settings, str(plans), lambda call: self.inputs.get(call, {}),
            lambda line: self.written.append(json.loads(line)),
        )  # fmt: skip
        self.asked: list[Approval] = []
        self.events: list[SessionEvent] = []
        self.withdrawn: list[str] = []

    def receive(self, **request: Any) -> None:
        number = len(self.asked) + len(self.written)
        self.approvals.handle_request(ControlRequest(request_id=f"r{number}", request=request))
        self.collect()

    def collect(self) -> None:
        for output in self.output.drain():
            match output:
                case ApprovalAsked():
                    self.asked.append(output.approval)
                case ApprovalWithdrawn():
                    self.withdrawn.append(output.approval_id)
                case EventEmitted():
                    self.events.append(output.event)
                case _:
                    pass

    def ask(self, tool: str = "Bash", given: dict[str, Any] | None = None, **more: Any) -> Approval:
        self.receive(
            subtype="can_use_tool",
            tool_name=tool,
            input=given or {"command": "make"},
            tool_use_id="call",
            **more,
        )
        return self.asked[-1]

    def answer(
        self, approval: Approval, outcome: Outcome, option: str | None = None, **more: Any
    ) -> dict[str, Any]:
        answer = check_answer(approval, Answer(outcome=outcome, option_id=option, **more))
        line = json.loads(self.approvals.answer(approval, answer))
        self.collect()
        assert line["response"]["subtype"] == "success"
        return line["response"]["response"]

    def hook(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to our hook before a tool call."""
        self.receive(
            subtype="hook_callback", callback_id=GUARD, tool_use_id="call",
            input={"tool_name": tool, "tool_input": given},
        )  # fmt: skip
        return self.written[-1]["response"]["response"].get("hookSpecificOutput", {})


@pytest.fixture
def desk(tmp_path: Path) -> Callable[..., Desk]:
    def make(mode: PermissionMode = PermissionMode.DEFAULT) -> Desk:
        return Desk(mode, tmp_path / "plans")

    return make


MakeDesk = Callable[..., Desk]


def test_a_permission_has_what_a_person_must_know(desk: MakeDesk) -> None:
    approval = desk().ask(decision_reason="a rule asks", blocked_path="/etc", agent_id=None)
    assert (approval.kind, approval.title, approval.tool) == (ApprovalKind.PERMISSION, "make", "Bash")
    assert (approval.tool_kind, approval.tool_call_id) == (ToolKind.EXECUTE, "call")
    assert approval.meta == {"reason": "a rule asks", "blockedPath": "/etc"}
    assert [option.id for option in approval.options] == ["allow", "deny"]


def test_the_suggestions_of_claude_code_are_options(desk: MakeDesk) -> None:
    approval = desk().ask(permission_suggestions=[RULE, DIRECTORY, ACCEPT])
    options = {option.id: option for option in approval.options}
    assert [*options] == ["allow", "session", "always", "acceptEdits", "deny"]
    assert options["always"].name == "Allow always: Bash(make *), /other"
    assert options["acceptEdits"].mode is PermissionMode.ACCEPT_EDITS
    assert options["deny"].kind is OptionKind.REJECT_ONCE


def test_a_suggestion_for_the_session_only_is_not_offered_for_always(desk: MakeDesk) -> None:
    approval = desk().ask(permission_suggestions=[DIRECTORY])
    assert [option.id for option in approval.options] == ["allow", "session", "deny"]


@pytest.mark.parametrize(
    ("option", "updates"),
    [
        ("allow", None),
        ("session", [{**RULE, "destination": "session"}, DIRECTORY]),
        ("always", [RULE, DIRECTORY]),
        ("acceptEdits", [ACCEPT]),
    ],
)
def test_each_option_that_allows(desk: MakeDesk, option: str, updates: list[Any] | None) -> None:
    there = desk()
    approval = there.ask(permission_suggestions=[RULE, DIRECTORY, ACCEPT])
    result = there.answer(approval, Outcome.APPROVED, option)
    assert (result["behavior"], result["updatedInput"]) == ("allow", {"command": "make"})
    assert result.get("updatedPermissions") == updates
    changed = [event.permission_mode for event in there.events if isinstance(event, ModeUpdate)]
    assert changed == ([PermissionMode.ACCEPT_EDITS] if option == "acceptEdits" else [])


def test_an_answer_may_name_a_mode(desk: MakeDesk) -> None:
    there = desk()
    approval = there.ask(permission_suggestions=[RULE, ACCEPT])
    result = there.answer(approval, Outcome.APPROVED, "always", mode=PermissionMode.PLAN)
    assert result["updatedPermissions"] == [
        RULE,
        {"type": "setMode", "mode": "plan", "destination": "session"},
    ]
    assert there.settings.mode is PermissionMode.PLAN


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if not outcome.allows])
def test_every_other_outcome_denies(desk: MakeDesk, outcome: Outcome) -> None:
    there = desk()
    result = there.answer(there.ask(), outcome, message="not today")
    assert result == {"behavior": "deny", "message": "not today", "interrupt": outcome is Outcome.ABORT}


def test_a_denial_without_a_reason_says_who_denied(desk: MakeDesk) -> None:
    there = desk()
    assert "user" in there.answer(there.ask(), Outcome.DENIED)["message"]


def test_several_at_once_are_answered_in_any_order_and_once(desk: MakeDesk) -> None:
    there = desk()
    first, second = there.ask(given={"command": "one"}), there.ask(given={"command": "two"})
    assert there.answer(second, Outcome.APPROVED)["updatedInput"] == {"command": "two"}
    assert there.answer(first, Outcome.DENIED)["behavior"] == "deny"
    with pytest.raises(Conflict):
        there.answer(first, Outcome.APPROVED)


def test_a_withdrawn_request_can_no_longer_be_answered(desk: MakeDesk) -> None:
    there = desk()
    approval = there.ask()
    there.approvals.handle_cancel("r0")
    there.collect()
    assert there.withdrawn == [approval.id]
    with pytest.raises(Conflict):
        there.answer(approval, Outcome.APPROVED)


@pytest.mark.parametrize("mode", [PermissionMode.PLAN, PermissionMode.READ_ONLY])
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Bash", {"command": "ls"}),
        ("Write", {"file_path": "/a"}),
        ("mcp__x__y", {}),
        ("NewTool", {}),
        ("WebFetch", {}),
    ],
)
def test_in_a_mode_that_changes_nothing_we_deny_twice(
    desk: MakeDesk, mode: PermissionMode, tool: str, given: dict[str, Any]
) -> None:
    there = desk(mode)
    assert there.hook(tool, given)["permissionDecision"] == "deny"
    there.receive(subtype="can_use_tool", tool_name=tool, input=given, tool_use_id="call")
    assert there.written[-1]["response"]["response"]["behavior"] == "deny"
    assert there.asked == []
    notices = [event for event in there.events if isinstance(event, Notice)]
    assert [(notice.code, notice.meta) for notice in notices] == [("read_only", {"toolCallId": "call"})] * 2


@pytest.mark.parametrize("mode", [PermissionMode.PLAN, PermissionMode.READ_ONLY])
@pytest.mark.parametrize("tool", ["Read", "Grep", "Glob", "Task", "TodoWrite", "ExitPlanMode"])
def test_what_changes_nothing_is_not_stopped(desk: MakeDesk, mode: PermissionMode, tool: str) -> None:
    assert desk(mode).hook(tool, {}) == {}


def test_in_plan_mode_only_the_file_of_the_plan_is_written(desk: MakeDesk, tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    there = desk(PermissionMode.PLAN)
    assert there.hook("Write", {"file_path": str(plans / "mine.md")}) == {}
    for path in (plans / ".." / "code.py", tmp_path / "plans-of-others" / "x.md", plans):
        assert there.hook("Write", {"file_path": str(path)})["permissionDecision"] == "deny"
    assert desk(PermissionMode.READ_ONLY).hook("Write", {"file_path": str(plans / "mine.md")}) != {}


@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.YOLO])
def test_in_other_modes_the_hook_decides_nothing(desk: MakeDesk, mode: PermissionMode) -> None:
    assert desk(mode).hook("Bash", {"command": "make"}) == {}


@pytest.mark.parametrize(
    ("mode", "tool", "asks"),
    [
        (PermissionMode.YOLO, "Write", False),
        (PermissionMode.YOLO, "mcp__x__y", False),
        (PermissionMode.BYPASS, "Bash", False),
        (PermissionMode.SAFE_YOLO, "Bash", False),
        (PermissionMode.SAFE_YOLO, "Write", True),
        (PermissionMode.SAFE_YOLO, "mcp__x__y", True),
        (PermissionMode.ACCEPT_EDITS, "Bash", True),
        (PermissionMode.DEFAULT, "Write", True),
    ],
)
def test_what_claude_code_asks_for_is_asked_of_a_person_or_allowed_by_the_mode(
    desk: MakeDesk, mode: PermissionMode, tool: str, *, asks: bool
) -> None:
    """It asks for an edit in a mode that accepts edits only if that is outside of the session's directories."""
    there = desk(mode)
    there.receive(subtype="can_use_tool", tool_name=tool, input={"a": 1}, tool_use_id="call")
    assert bool(there.asked) == asks
    if not asks:
        assert there.written[-1]["response"]["response"] == {"behavior": "allow", "updatedInput": {"a": 1}}


def test_a_question_is_asked_even_in_yolo(desk: MakeDesk) -> None:
    there = desk(PermissionMode.YOLO)
    approval = there.ask("AskUserQuestion", {"questions": [{"question": "Which?", "options": []}]})
    assert approval.kind is ApprovalKind.QUESTION
    result = there.answer(approval, Outcome.APPROVED, answers={"0": ["this"]})
    assert result["updatedInput"]["answers"] == {"Which?": "this"}


def test_a_question_that_is_not_answered_is_denied(desk: MakeDesk) -> None:
    there = desk()
    approval = there.ask("AskUserQuestion", {"questions": [{"question": "Which?", "options": []}]})
    assert there.answer(approval, Outcome.TIMED_OUT)["behavior"] == "deny"


@pytest.mark.parametrize(
    ("option", "mode"), [("default", PermissionMode.DEFAULT), ("acceptEdits", PermissionMode.ACCEPT_EDITS)]
)
def test_an_approved_plan_sets_the_mode(desk: MakeDesk, option: str, mode: PermissionMode) -> None:
    there = desk(PermissionMode.PLAN)
    approval = there.ask("ExitPlanMode", {"plan": "# Plan"})
    assert (approval.kind, approval.plan) == (ApprovalKind.PLAN, "# Plan")
    result = there.answer(approval, Outcome.APPROVED, option)
    assert result["updatedPermissions"] == [{"type": "setMode", "mode": mode.value, "destination": "session"}]
    assert there.settings.mode is mode


def test_a_refused_plan_keeps_planning(desk: MakeDesk) -> None:
    there = desk(PermissionMode.PLAN)
    result = there.answer(
        there.ask("ExitPlanMode", {"plan": "# Plan"}), Outcome.DENIED, "plan", message="shorter"
    )
    assert result == {"behavior": "deny", "message": "shorter", "interrupt": False}
    assert there.settings.mode is PermissionMode.PLAN


def test_a_plan_that_claude_code_leaves_out_is_taken_from_the_call(desk: MakeDesk) -> None:
    there = desk(PermissionMode.PLAN)
    there.inputs["call"] = {"plan": "# As the model wrote it"}
    assert there.ask("ExitPlanMode", {"allowedPrompts": []}).plan == "# As the model wrote it"


@pytest.mark.parametrize(
    "request_", [
        {"subtype": "something_new"},
        {"subtype": "can_use_tool"},
        {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": []}},
        {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": "?"}},
    ],
)  # fmt: skip
def test_a_request_that_we_do_not_understand_is_refused_and_told(
    desk: MakeDesk, request_: dict[str, Any]
) -> None:
    there = desk(PermissionMode.YOLO)
    there.receive(**request_)
    assert there.written[-1]["response"]["subtype"] == "error"
    assert [type(event) for event in there.events] == [Notice]
    assert there.asked == []
