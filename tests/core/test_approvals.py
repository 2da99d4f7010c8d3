import pytest

from farsteer.core.approvals import (
    Answer,
    Approval,
    ApprovalKind,
    Option,
    OptionKind,
    Outcome,
    Question,
    RequestedToolCall,
    check_answer,
    granted_mode,
    join_titles,
    riskiest,
)
from farsteer.core.errors import BadRequest
from farsteer.core.modes import PermissionMode, ToolKind

PERMISSION = Approval(
    id="a",
    kind=ApprovalKind.PERMISSION,
    title="run ls",
    created_at=1,
    options=(
        Option(id="yes", name="Allow", kind=OptionKind.ALLOW_ONCE),
        Option(id="always", name="Always", kind=OptionKind.ALLOW_ALWAYS),
        Option(id="no", name="Reject", kind=OptionKind.REJECT_ONCE),
    ),
)
QUESTION = Approval(
    id="q",
    kind=ApprovalKind.QUESTION,
    title="Which?",
    created_at=1,
    questions=(
        Question(id="colour", text="Colour?", choices=("red", "blue")),
        Question(id="sizes", text="Sizes?", choices=("s", "m"), multiple=True),
        Question(id="why", text="Why?", free_text=True),
    ),
)
COMPLETE = {"colour": ["red"], "sizes": ["s", "m"], "why": ["because"]}


@pytest.mark.parametrize(
    ("outcome", "option"),
    [
        (Outcome.APPROVED, "yes"),
        (Outcome.APPROVED_FOR_SESSION, "always"),
        (Outcome.DENIED, "no"),
        (Outcome.ABORT, "no"),
        (Outcome.TIMED_OUT, "no"),
        (Outcome.CANCELLED, "no"),
    ],
)
def test_an_outcome_finds_its_option(outcome: Outcome, option: str) -> None:
    assert check_answer(PERMISSION, Answer(outcome=outcome)).option_id == option


def test_only_a_yes_is_a_yes() -> None:
    assert {outcome for outcome in Outcome if outcome.allows} == {
        Outcome.APPROVED,
        Outcome.APPROVED_FOR_SESSION,
    }


@pytest.mark.parametrize(
    "answer",
    [
        Answer(outcome=Outcome.APPROVED, option_id="no"),
        Answer(outcome=Outcome.DENIED, option_id="yes"),
        Answer(outcome=Outcome.APPROVED, option_id="ye"),
    ],
)
def test_an_option_is_exact_and_agrees_with_the_outcome(answer: Answer) -> None:
    with pytest.raises(BadRequest):
        check_answer(PERMISSION, answer)


def test_a_complete_set_of_answers_passes() -> None:
    answer = Answer(outcome=Outcome.APPROVED, answers=COMPLETE)
    assert check_answer(QUESTION, answer).answers == COMPLETE


@pytest.mark.parametrize(
    "answers",
    [
        None,
        {},
        {**COMPLETE, "colour": ["green"]},
        {**COMPLETE, "colour": ["red", "blue"]},
        {**COMPLETE, "why": []},
        {**COMPLETE, "shape": ["round"]},
    ],
)
def test_a_question_takes_only_what_it_asked_for(answers: dict[str, list[str]] | None) -> None:
    with pytest.raises(BadRequest):
        check_answer(QUESTION, Answer(outcome=Outcome.APPROVED, answers=answers))


def test_a_question_may_be_declined_without_answers() -> None:
    assert check_answer(QUESTION, Answer(outcome=Outcome.DENIED)).outcome is Outcome.DENIED


def test_the_riskiest_of_several_tool_calls_is_the_one_that_can_do_the_most() -> None:
    ascending = (
        "think",
        "search",
        "read",
        "fetch",
        "move",
        "edit",
        "switch_mode",
        "other",
        "execute",
        "delete",
    )
    assert len(ascending) == len(ToolKind)
    calls = [RequestedToolCall(title=kind, tool_kind=ToolKind(kind)) for kind in ascending]
    for number in range(1, len(calls) + 1):
        assert riskiest(calls[:number]) is riskiest(calls[number - 1 :: -1]) is calls[number - 1]
    assert join_titles(calls[:1]) == "think"
    assert join_titles(calls[:2]) == "2 actions: think; search"


@pytest.mark.parametrize(
    ("kind", "option", "outcome", "mode", "granted"),
    [
        (ApprovalKind.PERMISSION, "once", Outcome.APPROVED, None, None),
        (ApprovalKind.PERMISSION, "always", Outcome.APPROVED_FOR_SESSION, None, PermissionMode.YOLO),
        (ApprovalKind.PERMISSION, "once", Outcome.APPROVED, PermissionMode.PLAN, PermissionMode.PLAN),
        (ApprovalKind.PERMISSION, None, Outcome.DENIED, PermissionMode.YOLO, None),
        (ApprovalKind.PLAN, None, Outcome.APPROVED, None, PermissionMode.DEFAULT),
        (ApprovalKind.PLAN, None, Outcome.TIMED_OUT, None, None),
    ],
)
def test_an_answer_grants_the_mode_that_it_or_its_option_names(
    kind: ApprovalKind,
    option: str | None,
    outcome: Outcome,
    mode: PermissionMode | None,
    granted: PermissionMode | None,
) -> None:
    options = (
        Option(id="once", name="Once", kind=OptionKind.ALLOW_ONCE),
        Option(id="always", name="Always", kind=OptionKind.ALLOW_ALWAYS, mode=PermissionMode.YOLO),
    )
    approval = Approval(id="a", kind=kind, title="t", created_at=1, options=options)
    assert granted_mode(approval, Answer(outcome=outcome, option_id=option, mode=mode)) is granted
