"""An approval at a terminal: how it is put to a person, and what the line they type means. Pure.

Nothing but a clear yes is a yes: an empty line, a typing error or a lost terminal never approves.
"""

from __future__ import annotations

from dataclasses import dataclass

from farsteer.cli.text import clean
from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Question
from farsteer.core.wire import encode

Decision = Approve | Deny

_MAX_LINES = 30


@dataclass(frozen=True, slots=True)
class Again:
    """The line was no answer; `why` says what would be one."""

    why: str


def describe(approval: Approval) -> list[str]:
    """What is asked, as lines for a person."""
    title = clean(approval.title)
    match approval.kind:
        case ApprovalKind.PERMISSION:
            lines = [f"allow? {title}", *_arguments(approval)]
        case ApprovalKind.PLAN:
            lines = [title or "a plan", *_indented(approval.plan or "")]
        case ApprovalKind.QUESTION:
            lines = [title or "a question"]
    return lines if len(lines) <= _MAX_LINES else [*lines[:_MAX_LINES], "  …"]


def _arguments(approval: Approval) -> list[str]:
    given = approval.arguments or {}
    shown = [
        line
        for name, value in given.items()
        for line in _indented(f"{name}: {value if isinstance(value, str) else encode(value).decode()}")
    ]
    return [line for line in shown if line.strip()]


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in clean(text).splitlines()]


class Asking:
    """One approval being asked: give it the lines a person types until it has a decision."""

    def __init__(self, approval: Approval) -> None:
        self.approval = approval
        self._left = list(approval.questions)
        self._answers: dict[str, list[str]] = {}

    @property
    def prompt(self) -> str:
        """What to type now."""
        match self.approval.kind:
            case ApprovalKind.PERMISSION:
                return "[y]es, [n]o (or n and why), [a]lways in this session, [x] no and stop"
            case ApprovalKind.PLAN:
                return "[y]es, [n]o (or n and what to change), [x] no and stop"
            case ApprovalKind.QUESTION:
                return _ask(self._left[0]) if self._left else "[y]es, [n]o"

    def reply(self, line: str) -> Decision | Again | None:
        """The decision, what was wrong with the line, or None: there is another question."""
        line = line.strip()
        if self.approval.kind is ApprovalKind.QUESTION and self._left:
            return self._answer(self._left[0], line)
        word, _, rest = line.partition(" ")
        match word.lower().rstrip(","), rest.strip():
            case ("y" | "yes", ""):
                return Approve()
            case ("a" | "always", "") if self.approval.kind is ApprovalKind.PERMISSION:
                return Approve(decision="approved_for_session")
            case ("n" | "no", why):
                return Deny(message=why or None)
            case ("x", why):
                return Deny(decision="abort", message=why or None)
            case _:
                return Again(f"not understood; {self.prompt}")

    def _answer(self, question: Question, line: str) -> Decision | Again | None:
        if line == "-":
            return Deny(message="declined to answer")
        chosen = _chosen(question, line)
        if isinstance(chosen, Again):
            return chosen
        self._answers[question.id] = chosen
        self._left.pop(0)
        return None if self._left else Approve(answers=self._answers)


def _ask(question: Question) -> str:
    choices = [f"  {number}) {clean(choice)}" for number, choice in enumerate(question.choices, 1)]
    if not choices:
        how = "your answer"
    else:
        how = "numbers, separated by commas" if question.multiple else "a number"
        how += ", or your own words" if question.free_text else ""
    return "\n".join([clean(question.text), *choices, f"{how}, or - to decline"])


def _chosen(question: Question, line: str) -> list[str] | Again:
    if not line:
        return Again("an answer is needed, or - to decline")
    if not question.choices:
        return [line]
    parts = [part.strip() for part in line.split(",")] if question.multiple else [line]
    chosen: list[str] = []
    for part in parts:
        number = int(part) if part.isascii() and part.isdigit() and len(part) < 4 else 0
        if 1 <= number <= len(question.choices):
            chosen.append(question.choices[number - 1])
        elif part in question.choices:
            chosen.append(part)
        elif question.free_text:
            return [line]
        else:
            return Again(
                f"{clean(part)!r} is none of the choices; a number from 1 to {len(question.choices)}"
            )
    return list(dict.fromkeys(chosen))
