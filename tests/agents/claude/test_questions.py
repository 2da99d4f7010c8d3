"""The questions of `AskUserQuestion`."""

from __future__ import annotations

from typing import Any

from farsteer.agents.claude.questions import answered_input, question_approval
from farsteer.core.approvals import Answer, Outcome

GIVEN: dict[str, Any] = {
    "questions": [
        {"question": "Which color?", "header": "Color", "multiSelect": False,
         "options": [{"label": "Red", "description": "warm"}, {"label": "Blue"}]},
        {"question": "Which sizes?", "multiSelect": True, "options": [{"label": "S"}, {"label": "M"}]},
    ],
    "metadata": {"source": "kept"},
}  # fmt: skip


def test_every_question_has_its_choices_and_takes_free_text() -> None:
    approval = question_approval(GIVEN, "call", "turn")
    color, sizes = approval.questions
    assert (color.text, color.choices, color.multiple) == ("Which color?", ("Red", "Blue"), False)
    assert (sizes.choices, sizes.multiple) == (("S", "M"), True)
    assert color.free_text
    assert sizes.free_text
    assert (approval.title, approval.tool_call_id, approval.turn_id) == ("Which color?", "call", "turn")
    assert approval.meta == {
        "headers": {"0": "Color"},
        "descriptions": {"0": {"Red": "warm"}, "1": {}},
    }


def test_answers_are_given_by_the_text_of_the_question() -> None:
    answer = Answer(outcome=Outcome.APPROVED, answers={"0": ["a bright green"], "1": ["S", "M"]})
    assert answered_input(GIVEN, answer) == {
        **GIVEN, "answers": {"Which color?": "a bright green", "Which sizes?": "S, M"},
    }  # fmt: skip
