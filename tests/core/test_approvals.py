import pytest

from farsteer.core.approvals import (
    Answer,
    Approval,
    ApprovalKind,
    Option,
    OptionKind,
    Outcome,
    Question,
    check_answer,
)
from farsteer.core.errors import BadRequest

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
