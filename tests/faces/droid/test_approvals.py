"""Approvals as Droid's requests, and the answers of clients."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Question, RequestedToolCall
from farsteer.core.modes import PermissionMode
from farsteer.faces.droid.approvals import ApprovalRequest, build_request, decide
from farsteer.faces.droid.protocol import DEFAULT_DIALECT, DIALECTS, ToolUse

ALLOW = Option(id="y", name="Allow", kind=OptionKind.ALLOW_ONCE)
ALWAYS = Option(id="ys", name="Allow edits", kind=OptionKind.ALLOW_ALWAYS)
SERVER = Option(id="yss", name="Allow the server", kind=OptionKind.ALLOW_ALWAYS)
REJECT = Option(id="n", name="Reject", kind=OptionKind.REJECT_ONCE)
NEVER = Option(id="nn", name="Never", kind=OptionKind.REJECT_ALWAYS)


def approval(*options: Option, kind: ApprovalKind = ApprovalKind.PERMISSION, **more: Any) -> Approval:
    return Approval(id="a", kind=kind, title="Do it", created_at=1, tool="thing", options=options, **more)


def request(one: Approval, version: str = DEFAULT_DIALECT.version) -> ApprovalRequest:
    return build_request(one, None, DIALECTS[version])


def decision(one: Approval, answer: Any) -> Approve | Deny | None:
    return decide(request(one), msgspec.Raw(msgspec.json.encode(answer)))


def test_every_one_of_several_tool_calls_is_in_the_request() -> None:
    calls = (
        RequestedToolCall(title="ls", tool_call_id="1", tool="Execute", arguments={"command": "ls"}),
        RequestedToolCall(title="not understood", arguments={"raw": [1]}),
    )
    asked = request(approval(tool_call_id="1", tool_calls=calls))
    assert [use["toolUse"].input for use in asked.params["toolUses"]] == [{}, {"raw": [1]}]
    plan = approval(kind=ApprovalKind.PLAN, tool_call_id="p", plan="do", tool_calls=calls)
    assert [use["toolUse"].name for use in request(plan).params["toolUses"]] == [
        "ExitSpecMode",
        "Execute",
        "not understood",
    ]


def values(asked: ApprovalRequest) -> list[str]:
    return [option["value"] for option in asked.params["options"]]


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ((), ["proceed_once", "proceed_always", "cancel"]),
        ((ALLOW, REJECT), ["proceed_once", "cancel"]),
        ((REJECT, ALWAYS, ALLOW), ["proceed_once", "proceed_always", "cancel"]),
        (
            (ALLOW, ALWAYS, SERVER, REJECT, NEVER),
            ["proceed_once", "proceed_always", "proceed_always_tools", "cancel"],
        ),
    ],
)
def test_only_values_that_clients_know_are_offered(options: tuple[Option, ...], offered: list[str]) -> None:
    assert values(request(approval(*options))) == offered


def test_a_value_selects_the_option_it_stands_for() -> None:
    one = approval(ALLOW, ALWAYS, SERVER, REJECT)
    assert decision(one, {"selectedOption": "proceed_once"}) == Approve(decision="approved", option_id="y")
    assert decision(one, {"selectedOption": "proceed_always", "comment": "ok"}) == Approve(
        decision="approved_for_session", option_id="ys", message="ok"
    )
    assert decision(one, {"selectedOption": "proceed_always_tools"}) == Approve(
        decision="approved", option_id="yss"
    )
    assert decision(one, {"selectedOption": "cancel", "comment": "no"}) == Deny(option_id="n", message="no")


def test_an_allowing_value_that_was_not_offered_allows_once() -> None:
    one = approval(ALLOW, REJECT)
    assert decision(one, {"selectedOption": "proceed_auto_run_high"}) == Approve(decision="approved")
    assert decision(one, {"selectedOption": "proceed_always"}) == Approve(decision="approved")


def test_the_details_of_a_droid_are_passed_on() -> None:
    details = {"type": "exec", "fullCommand": "ls", "impactLevel": "low"}
    own = Option(id="proceed_always", name="Always: raises the autonomy", kind=OptionKind.ALLOW_ALWAYS)
    asked = request(approval(own, meta={"confirmationType": "exec", "details": details}))
    (use,) = asked.params["toolUses"]
    assert (use["confirmationType"], use["details"]) == ("exec", details)
    assert asked.params["options"][0]["label"] == "Always: raises the autonomy"


@pytest.mark.parametrize(
    ("name", "details"),
    [
        ("linear___list", {"serverName": "linear", "actualToolName": "list"}),
        ("mcp__linear__list", {"serverName": "linear", "actualToolName": "list"}),
        ("delete", {}),
    ],
)
def test_a_tool_unknown_to_droid_is_an_mcp_tool(name: str, details: dict[str, str]) -> None:
    asked = build_request(approval(ALLOW), ToolUse(id="c", name=name), DEFAULT_DIALECT)
    (use,) = asked.params["toolUses"]
    assert use["details"] == {"type": "mcp_tool", "toolName": name, "impactLevel": "high", **details}


def plan(*options: Option, **more: Any) -> Approval:
    return approval(*options, kind=ApprovalKind.PLAN, plan="# Plan", **more)


def test_a_plan_offers_five_options_and_each_sets_a_mode() -> None:
    one = plan(ALLOW, REJECT)
    five = [
        "proceed_once",
        "proceed_auto_run_low",
        "proceed_auto_run_medium",
        "proceed_auto_run_high",
        "cancel",
    ]
    assert values(request(one)) == five
    chosen = [decision(one, {"selectedOption": word}) for word in five[:4]]
    assert [answer.mode for answer in chosen if isinstance(answer, Approve)] == [
        PermissionMode.DEFAULT,
        PermissionMode.ACCEPT_EDITS,
        PermissionMode.SAFE_YOLO,
        PermissionMode.YOLO,
    ]
    assert isinstance(decision(one, {"selectedOption": "cancel"}), Deny)


def test_the_plan_of_a_droid_is_answered_with_its_own_option() -> None:
    own = (
        Option(id="proceed_once", name="Proceed", kind=OptionKind.ALLOW_ONCE),
        Option(id="proceed_new_session", name="Elsewhere", kind=OptionKind.ALLOW_ONCE),
        Option(id="cancel", name="No", kind=OptionKind.REJECT_ONCE),
    )
    assert decision(plan(*own), {"selectedOption": "proceed_once"}) == Approve(
        decision="approved", option_id="proceed_once"
    )
    assert "proceed_new_session" not in values(request(plan(*own)))
    assert values(request(plan(*own), "0.215"))[-2:] == ["proceed_new_session", "cancel"]


def test_an_edited_plan_and_the_chosen_plan_reach_the_agent() -> None:
    which = Question(id="choice", text="Which?", choices=("A", "B"))
    one = plan(ALLOW, REJECT, questions=(which,))
    assert request(one).params["toolUses"][0]["details"]["optionNames"] == ["A", "B"]
    answer = decision(one, {"selectedOption": "proceed_once", "comment": "B", "editedSpecContent": "# Mine"})
    assert isinstance(answer, Approve)
    assert answer.answers == {"choice": ["B"], "plan": ["# Mine"]}
    assert "# Mine" in (answer.message or "")


QUESTIONS = (
    Question(id="q", text="One?", choices=("Red", "Blue")),
    Question(id="r", text="Many?", choices=("a", "b", "c"), multiple=True),
)


@pytest.mark.parametrize(
    ("answers", "given"),
    [
        (["Red", "a"], {"q": ["Red"], "r": ["a"]}),
        (["red", "A, c"], {"q": ["Red"], "r": ["a", "c"]}),
        (["green", "a,z"], {"q": ["green"], "r": ["a,z"]}),
    ],
)
def test_answers_are_matched_with_choices(answers: list[str], given: dict[str, list[str]]) -> None:
    one = approval(kind=ApprovalKind.QUESTION, questions=QUESTIONS)
    said = [{"index": number, "question": "?", "answer": text} for number, text in enumerate(answers, 1)]
    assert decision(one, {"cancelled": False, "answers": said}) == Approve(answers=given)


def test_missing_and_malformed_answers() -> None:
    one = approval(kind=ApprovalKind.QUESTION, questions=QUESTIONS)
    first = {"index": 1, "question": "One?", "answer": "Red"}
    assert isinstance(decision(one, {"cancelled": False, "answers": [first]}), Deny)
    assert isinstance(decision(one, {"cancelled": True}), Deny)
    assert decision(one, {"cancelled": False, "answers": ["Red", "a"]}) is None
    stray = [{"index": index, "question": "?", "answer": "x"} for index in (0, -1, 3)]
    assert isinstance(decision(one, {"cancelled": False, "answers": stray}), Deny)
