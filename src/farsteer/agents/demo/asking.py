"""What it asks: questions with one answer, several or a free one, and plans."""

from __future__ import annotations

from typing import Any

from farsteer.agents.demo.commands import asking
from farsteer.agents.demo.turn import Answer, Turn
from farsteer.agents.demo.working import work_through
from farsteer.core.modes import PermissionMode

_ONE: dict[str, Any] = {"id": "colour", "text": "Which colour?", "choices": ["red", "green", "blue"]}
_MANY: dict[str, Any] = {
    "id": "toppings", "text": "Which toppings?", "choices": ["cheese", "olives", "basil"], "multiple": True,
}  # fmt: skip
_FREE: dict[str, Any] = {"id": "name", "text": "What shall it be called?", "freeText": True}

_PLAN = """\
# What I would do

1. Look around
2. Make the change
3. Check that it works
"""
_PLANS = """\
## Plan A: the small change

Only what is needed.

## Plan B: the big change

Everything at once.
"""
_WHICH: dict[str, Any] = {
    "id": "choice", "text": "Which plan?", "choices": ["Plan A: the small change", "Plan B: the big change"],
}  # fmt: skip
_PLAN_OPTIONS = (
    {"id": "approve", "name": "Approve the plan", "kind": "allow_once"},
    {"id": "refuse", "name": "Refuse the plan", "kind": "reject_once"},
)


@asking("ask", "asks a question with one answer")
def _ask(turn: Turn, argument: str) -> None:
    _question(turn, _ONE)


@asking("ask many", "asks a question with several answers")
def _ask_many(turn: Turn, argument: str) -> None:
    _question(turn, _MANY)


@asking("ask text", "asks a question that is answered in your own words")
def _ask_text(turn: Turn, argument: str) -> None:
    _question(turn, _FREE)


@asking("ask all", "asks these three together")
def _ask_all(turn: Turn, argument: str) -> None:
    _question(turn, _ONE, _MANY, _FREE)


@asking("plan", "proposes a plan and follows it if you approve")
def _plan(turn: Turn, argument: str) -> None:
    _propose(turn, "Approve this plan?", _PLAN)


@asking("plan many", "proposes two plans to choose from")
def _plan_many(turn: Turn, argument: str) -> None:
    answer = _propose(turn, "Approve one of these plans?", _PLANS, questions=(_WHICH,))
    chosen = answer.answers.get(_WHICH["id"]) if answer.allow else None
    if chosen:
        turn.say(f"It was {', '.join(chosen)}.")


def _propose(turn: Turn, title: str, plan: str, **more: Any) -> Answer:
    answer = turn.ask("plan", title, plan=plan, options=_PLAN_OPTIONS, **more)
    if not answer.allow:
        turn.say(f"I drop the plan: {answer.message}" if answer.message else "I drop the plan.")
        return answer
    if turn.session.mode is PermissionMode.PLAN:
        turn.session.switch_mode(PermissionMode(answer.mode or PermissionMode.DEFAULT))
    work_through(turn)
    turn.say("I have followed the plan.")
    return answer


def _question(turn: Turn, *questions: dict[str, Any]) -> None:
    title = questions[0]["text"] if len(questions) == 1 else f"{len(questions)} questions"
    answer = turn.ask("question", title, questions=questions)
    if not answer.allow:
        turn.say("Then I do not know.")
        return
    given = [
        f"{question['id']}: {', '.join(answer.answers.get(question['id'], []))}" for question in questions
    ]
    turn.say(f"You chose {'; '.join(given)}.")
