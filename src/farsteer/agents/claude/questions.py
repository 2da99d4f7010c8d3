"""The questions of the tool `AskUserQuestion`, and their answers."""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.agents.claude.tools import ASK_QUESTION
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Question
from farsteer.core.clock import now_ms
from farsteer.core.ids import new_id
from farsteer.core.modes import ToolKind
from farsteer.core.text import clean_line

_TITLE_CHARS = 200


class _Choice(msgspec.Struct, frozen=True):
    label: str
    description: str = ""


class _Question(msgspec.Struct, frozen=True, rename="camel"):
    question: str
    header: str = ""
    options: list[_Choice] = []
    multi_select: bool = False


class _Questions(msgspec.Struct, frozen=True):
    questions: list[_Question]


def question_approval(given: dict[str, Any], call: str | None, turn_id: str | None) -> Approval:
    """Return the approval of a call. Raises msgspec.ValidationError or ValueError."""
    asked = msgspec.convert(given, _Questions).questions
    if not asked:
        raise ValueError("a questionnaire without a question")
    meta = {
        "headers": {str(index): one.header for index, one in enumerate(asked) if one.header},
        "descriptions": {
            str(index): {choice.label: choice.description for choice in one.options if choice.description}
            for index, one in enumerate(asked)
        },
    }
    return Approval(
        id=new_id(), kind=ApprovalKind.QUESTION, title=clean_line(asked[0].question, _TITLE_CHARS),
        created_at=now_ms(), turn_id=turn_id, tool_call_id=call, tool=ASK_QUESTION, tool_kind=ToolKind.THINK,
        questions=tuple(
            Question(
                id=str(index), text=one.question, choices=tuple(choice.label for choice in one.options),
                multiple=one.multi_select, free_text=True,
            )
            for index, one in enumerate(asked)
        ),
        meta=meta,
    )  # fmt: skip


def answered_input(given: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """Return the input of the call with the answers, which Claude Code keeps by the text of the question."""
    asked = msgspec.convert(given, _Questions).questions
    chosen = answer.answers or {}
    answers = {one.question: ", ".join(chosen.get(str(index), [])) for index, one in enumerate(asked)}
    return {**given, "answers": answers}
