"""Droid's requests become approvals, and answers have the form that Droid accepts."""

from __future__ import annotations

from typing import Any

import pytest

from farsteer.core.approvals import Answer, Approval, ApprovalKind, OptionKind, Outcome, check_answer
from farsteer.core.errors import BadRequest, Conflict, ErrorCode
from farsteer.core.events import Notice, ToolCall
from farsteer.core.modes import PermissionMode, ToolKind
from tests.agents.droid.conftest import StartLaunch
from tests.agents.droid.fake_droid import LaunchHarness, completed, opened_session, plan, tool

EXECUTE = ToolKind.EXECUTE
REQUEST = "33333333-3333-4333-8333-333333333333"
SPEC_OPTIONS = [
    ("proceed_once", "Proceed with implementation"),
    ("proceed_auto_run_low", "Proceed, and allow file edits and read-only commands (Low)"),
    ("proceed_auto_run_medium", "Proceed, and allow reversible commands (Medium)"),
    ("proceed_auto_run_high", "Proceed, and allow all commands (High)"),
    ("proceed_new_session", "Proceed in a new session (no autonomy)"),
    ("proceed_new_session_low", "Proceed in a new session (Low autonomy)"),
    ("cancel", "No, keep iterating on spec"),
]


async def answer(harness: LaunchHarness, approval: Approval, outcome: Outcome, **more: Any) -> dict[str, Any]:
    """Answer an approval; return the result that Droid receives."""
    await harness.launch.answer(approval, check_answer(approval, Answer(outcome=outcome, **more)))
    return harness.droid.responses[-1]["result"]


async def questions(harness: LaunchHarness, *asked: dict[str, Any]) -> Approval:
    params = {"toolCallId": "call-1", "questions": list(asked)}
    await harness.droid.send({"type": "request", "id": REQUEST, "method": "droid.ask_user", "params": params})
    return harness.sink.approvals[-1]


@pytest.mark.parametrize(
    ("kind", "use", "details", "title", "tool_kind", "raises"),
    [
        ("exec", tool(command="rm -rf x"), {"impactLevel": "high"}, "rm -rf x", ToolKind.EXECUTE, "high"),
        ("create", tool(name="Create", file_path="/w/a.txt"), {}, "Create a.txt", ToolKind.EDIT, "low"),
        ("edit", tool(name="Edit", file_path="/w/a.txt"), {}, "Edit a.txt", ToolKind.EDIT, "low"),
        ("apply_patch", tool(name="ApplyPatch", input="*** Begin"), {}, "ApplyPatch", ToolKind.EDIT, "low"),
        ("mcp_tool", tool(name="echo___shout"), {"impactLevel": "high"}, "echo: shout", ToolKind.OTHER, "high"),
        ("sandbox_violation", tool(), {"violatingToolName": "Read", "reason": "/x"}, "Read: /x", EXECUTE, None),
        ("droid_shield_violation", tool(), {"command": "push", "reason": "a key"}, "push: a key", EXECUTE, None),
        ("start_mission_run", tool(name="StartMission"), {}, "StartMission", ToolKind.OTHER, None),
        ("of_the_future", tool(name="Teleport"), "no object", "Teleport", ToolKind.OTHER, None),
    ],
)  # fmt: skip
async def test_each_kind_of_confirmation_can_be_asked(
    harness: LaunchHarness,
    kind: str,
    use: dict[str, Any],
    details: Any,
    title: str,
    tool_kind: ToolKind,
    raises: str | None,
) -> None:
    turn = await harness.begin_turn()
    approval = await harness.request_permission(use, id=REQUEST, kind=kind, details=details)
    assert (approval.kind, approval.title, approval.tool_kind) == (ApprovalKind.PERMISSION, title, tool_kind)
    assert (approval.turn_id, approval.tool_call_id, approval.arguments) == (turn, "call-1", use["input"])
    assert approval.meta is not None
    assert approval.meta.get("alwaysRaisesAutonomyTo") == raises
    assert [option.kind for option in approval.options] == [
        OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS, OptionKind.REJECT_ONCE,
    ]  # fmt: skip
    (call,) = harness.sink.events_of(ToolCall)
    assert call.tool_call_id == "call-1", "the tool call is emitted before the approval"
    assert await answer(harness, approval, Outcome.APPROVED) == {"selectedOption": "proceed_once"}


async def test_a_denial_selects_cancel_and_carries_the_reason(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(tool(), id=REQUEST)
    sent = await answer(harness, approval, Outcome.DENIED, message="not on Fridays")
    assert sent == {"selectedOption": "cancel", "comment": "not on Fridays"}


@pytest.mark.parametrize("outcome", [Outcome.TIMED_OUT, Outcome.ABORT, Outcome.CANCELLED])
async def test_a_missing_answer_denies(harness: LaunchHarness, outcome: Outcome) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(tool(), id=REQUEST)
    assert (await answer(harness, approval, outcome))["selectedOption"] == "cancel"


async def test_an_mcp_tool_can_be_allowed_permanently_in_three_ways(harness: LaunchHarness) -> None:
    offered = ["proceed_once", "proceed_always", "proceed_always_tools", "proceed_always_server", "cancel"]
    await harness.begin_turn()
    approval = await harness.request_permission(
        tool(name="echo___shout"), id=REQUEST, kind="mcp_tool", options=[(one, one) for one in offered]
    )
    assert [option.id for option in approval.options] == offered
    sent = await answer(harness, approval, Outcome.APPROVED, option_id="proceed_always_server")
    assert sent == {"selectedOption": "proceed_always_server"}


async def test_an_unknown_option_is_offered_but_never_selected_for_a_plain_approval(
    harness: LaunchHarness,
) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(
        tool(), id=REQUEST, options=[("proceed_forever", "Everywhere"), ("proceed_once", "Yes"), ("cancel", "No")]
    )  # fmt: skip
    assert approval.options[0].kind is OptionKind.ALLOW_ALWAYS
    assert (await answer(harness, approval, Outcome.APPROVED))["selectedOption"] == "proceed_once"


async def test_a_request_without_options_can_be_approved_and_denied(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    params = {"toolUses": [{"toolUse": tool(), "confirmationType": "exec"}]}
    for outcome, option in ((Outcome.APPROVED, "proceed_once"), (Outcome.DENIED, "cancel")):
        request = {"type": "request", "id": REQUEST, "method": "droid.request_permission", "params": params}
        await harness.droid.send(request)
        assert await answer(harness, harness.sink.approvals[-1], outcome) == {"selectedOption": option}


async def test_several_tools_in_one_request_are_all_shown(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(
        tool("a", command="ls"), tool("b", command="rm x"), id=REQUEST
    )
    assert approval.title == "2 actions: ls; rm x"
    assert [(one.tool_call_id, one.arguments) for one in approval.tool_calls] == [
        ("a", {"command": "ls"}),
        ("b", {"command": "rm x"}),
    ]


async def test_the_kind_of_a_request_is_that_of_its_riskiest_tool(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    uses = [
        tool("a", "Read", file_path="/a"),
        tool("b", command="rm -rf /"),
        tool("c", "Edit", file_path="/c"),
    ]
    approval = await harness.request_permission(*uses, id=REQUEST)
    assert (approval.tool_kind, approval.tool_call_id, approval.tool) == (ToolKind.EXECUTE, "b", "Execute")
    assert approval.arguments == {"command": "rm -rf /"}
    assert [one.tool_kind for one in approval.tool_calls] == [ToolKind.READ, ToolKind.EXECUTE, ToolKind.EDIT]
    announced = [event.tool_call_id for event in harness.sink.events_of(ToolCall)]
    assert announced == ["a", "b", "c"]


async def test_a_dangerous_tool_behind_a_harmless_one_is_denied_in_a_read_only_session(
    start: StartLaunch,
) -> None:
    harness = await start(plan(mode=PermissionMode.READ_ONLY))
    await harness.begin_turn()
    request = {
        "type": "request", "id": REQUEST, "method": "droid.request_permission",
        "params": {"toolUses": [
            {"toolUse": tool("a", "Read", file_path="/a"), "confirmationType": "exec"},
            {"toolUse": tool("b", command="rm x"), "confirmationType": "exec"},
        ]},
    }  # fmt: skip
    await harness.droid.send(request)
    assert (await harness.droid.next_line())["result"] == {"selectedOption": "cancel"}
    assert harness.sink.approvals == []


async def test_a_tool_that_is_not_understood_is_shown_as_it_is(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    strange = {"tool": "format", "disk": "/dev/sda"}
    params = {"toolUses": [{"toolUse": tool("a", command="ls"), "confirmationType": "exec"}, strange]}
    await harness.droid.send(
        {"type": "request", "id": REQUEST, "method": "droid.request_permission", "params": params}
    )
    approval = harness.sink.approvals[-1]
    assert approval.tool_calls[1].arguments == {"raw": strange}
    assert "does not understand" in approval.title


async def test_always_for_several_tools_names_the_highest_level(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    levels = ("low", "high", "medium")
    params = {
        "toolUses": [
            {
                "toolUse": tool(level, command="x"),
                "confirmationType": "exec",
                "details": {"impactLevel": level},
            }
            for level in levels
        ],
        "options": [{"value": "proceed_always", "label": "Always"}],
    }
    await harness.droid.send(
        {"type": "request", "id": REQUEST, "method": "droid.request_permission", "params": params}
    )
    (option,) = harness.sink.approvals[-1].options
    assert option.mode is PermissionMode.YOLO
    assert "to high" in option.name


async def test_a_tool_beside_a_plan_is_shown(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    params = {
        "toolUses": [
            {"toolUse": tool("a", command="rm x"), "confirmationType": "exec"},
            {"toolUse": tool("p", "ExitSpecMode", plan="# Plan"), "confirmationType": "exit_spec_mode"},
        ]
    }
    await harness.droid.send(
        {"type": "request", "id": REQUEST, "method": "droid.request_permission", "params": params}
    )
    approval = harness.sink.approvals[-1]
    assert (approval.kind, approval.plan) == (ApprovalKind.PLAN, "# Plan")
    assert [one.title for one in approval.tool_calls] == ["rm x", "Plan"]


# -- plans


async def test_a_plan_offers_all_its_options(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    use = tool(name="ExitSpecMode", plan="# Plan", title="My spec")
    details = {"type": "exit_spec_mode", "plan": "# Plan", "title": "My spec"}
    approval = await harness.request_permission(
        use, id=REQUEST, kind="exit_spec_mode", details=details, options=SPEC_OPTIONS
    )
    assert (approval.kind, approval.title, approval.plan) == (ApprovalKind.PLAN, "My spec", "# Plan")
    assert approval.tool_kind is ToolKind.SWITCH_MODE
    assert [option.id for option in approval.options] == [value for value, _ in SPEC_OPTIONS]
    once = [option.id for option in approval.options if option.kind is OptionKind.ALLOW_ONCE]
    assert once == ["proceed_once", "proceed_new_session"]
    sent = await answer(harness, approval, Outcome.APPROVED, option_id="proceed_auto_run_medium")
    assert sent == {"selectedOption": "proceed_auto_run_medium"}


@pytest.mark.parametrize("place", ["input", "details"])
async def test_one_of_several_plans_can_be_chosen_in_both_versions(
    harness: LaunchHarness, place: str
) -> None:
    names: dict[str, Any] = {"optionNames": ["Plan A", "Plan B"]}
    await harness.begin_turn()
    approval = await harness.request_permission(
        tool(name="ExitSpecMode", plan="# P", **(names if place == "input" else {})), id=REQUEST, kind="exit_spec_mode",
        details=names if place == "details" else {}, options=SPEC_OPTIONS,
    )  # fmt: skip
    assert approval.questions[0].choices == ("Plan A", "Plan B")
    assert approval.meta is not None
    assert approval.meta["optionNames"] == ["Plan A", "Plan B"]
    sent = await answer(
        harness, approval, Outcome.APPROVED, answers={"choice": ["Plan B"]}, message="but quickly"
    )
    assert sent == {"selectedOption": "proceed_once", "comment": "Use this plan: Plan B\nbut quickly"}


async def test_an_edited_plan_is_sent_to_droid(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    use = tool(name="ExitSpecMode", plan="# P")
    options = [*SPEC_OPTIONS, ("proceed_edit", "Edit")]
    approval = await harness.request_permission(use, id=REQUEST, kind="exit_spec_mode", options=options)
    with pytest.raises(BadRequest, match=r"answers\.plan"):
        await answer(harness, approval, Outcome.APPROVED, option_id="proceed_edit")
    sent = await answer(harness, approval, Outcome.APPROVED, answers={"plan": ["# Better"]})
    assert sent == {"selectedOption": "proceed_once", "editedSpecContent": "# Better"}


async def test_a_refused_plan_keeps_droid_in_spec_mode(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(
        tool(name="ExitSpecMode", plan="# P"), id=REQUEST, kind="exit_spec_mode", options=SPEC_OPTIONS
    )
    assert await answer(harness, approval, Outcome.DENIED) == {"selectedOption": "cancel"}


# -- questions


async def test_each_question_has_its_own_answer(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await questions(
        harness,
        {"index": 1, "topic": "Color", "question": "Which color?", "options": ["Red", "Blue"]},
        {"index": 2, "question": "Which features?", "options": ["Auth", "Login"], "multiSelect": True},
    )
    assert approval.kind is ApprovalKind.QUESTION
    assert [(one.id, one.multiple, one.free_text) for one in approval.questions] == [
        ("1", False, True), ("2", True, True),
    ]  # fmt: skip
    sent = await answer(
        harness, approval, Outcome.APPROVED, answers={"1": ["Violet, please"], "2": ["Auth", "Login"]}
    )
    assert sent == {
        "cancelled": False,
        "answers": [
            {"index": 1, "question": "Which color?", "answer": "Violet, please"},
            {"index": 2, "question": "Which features?", "answer": "Auth, Login"},
        ],
    }


async def test_a_denied_question_is_cancelled_with_an_empty_list(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await questions(harness, {"index": 1, "question": "Which?", "options": ["A"]})
    assert await answer(harness, approval, Outcome.DENIED) == {"cancelled": True, "answers": []}


# -- invalid requests


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("droid.request_permission", {}, -32602),
        ("droid.request_permission", {"toolUses": []}, -32602),
        ("droid.request_permission", {"toolUses": [{"toolUse": {"id": 7}}]}, -32602),
        ("droid.ask_user", {"questions": []}, -32602),
        ("droid.ask_user", [], -32602),
        ("droid.of_the_future", {"what": 1}, -32601),
    ],
)
async def test_an_invalid_request_is_rejected_with_a_notice(
    harness: LaunchHarness, method: str, params: Any, code: int
) -> None:
    await harness.begin_turn()
    await harness.droid.send({"type": "request", "id": REQUEST, "method": method, "params": params})
    refusal = await harness.droid.next_line()
    assert (refusal["id"], refusal["error"]["code"]) == (REQUEST, code)
    assert harness.sink.approvals == []
    (notice,) = harness.sink.events_of(Notice)
    assert notice.code == ErrorCode.AGENT_PROTOCOL


async def test_a_repeated_request_is_asked_once(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.request_permission(tool(), id=REQUEST)
    await harness.request_permission(tool(), id=REQUEST)
    assert len(harness.sink.approvals) == 1


async def test_a_request_whose_id_is_not_a_uuid_is_answered_by_its_own_id(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(tool(), id="../../7")
    assert approval.id != "../../7"
    await answer(harness, approval, Outcome.APPROVED)
    assert harness.droid.responses[-1]["id"] == "../../7"


async def test_an_answer_to_a_closed_approval_is_a_conflict(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(tool(), id=REQUEST)
    await answer(harness, approval, Outcome.APPROVED)
    with pytest.raises(Conflict):
        await answer(harness, approval, Outcome.DENIED)
    other = await harness.request_permission(tool("call-2"), id="44444444-4444-4444-8444-444444444444")
    await harness.droid.notify(completed())
    with pytest.raises(Conflict):
        await answer(harness, other, Outcome.APPROVED)
    assert len(harness.droid.responses) == 1


@pytest.mark.parametrize("mode", [PermissionMode.READ_ONLY, PermissionMode.PLAN])
async def test_a_session_that_only_reads_denies_without_asking_and_emits_a_notice(
    start: StartLaunch, mode: PermissionMode
) -> None:
    interaction = "spec" if mode is PermissionMode.PLAN else "auto"
    harness = await start(plan(mode=mode), answer=opened_session(interactionMode=interaction))
    await harness.begin_turn()
    params = {"toolUses": [{"toolUse": tool(command="touch x"), "confirmationType": "exec"}], "options": []}
    request = {"type": "request", "id": REQUEST, "method": "droid.request_permission", "params": params}
    await harness.droid.send(request)
    assert (await harness.droid.next_line())["result"] == {"selectedOption": "cancel"}
    assert harness.sink.approvals == []
    (notice,) = harness.sink.events_of(Notice)
    assert (notice.code, "touch x" in notice.text) == ("denied_by_mode", True)
