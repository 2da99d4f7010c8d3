"""Asks a person for an approval: the text that is shown, and what the line they type means. Does no I/O.

Only a clear yes approves. An empty line, a typing error or a closed terminal never does.
"""

from __future__ import annotations

from dataclasses import dataclass

from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Question
from farsteer.core.text import clean, clean_line
from farsteer.core.wire import encode

Decision = Approve | Deny

_MAX_LINES = 30
_MAX_TITLE = 10_000
"""Longer than for other titles: the end of a command must not be hidden."""


@dataclass(frozen=True, slots=True)
class InvalidReply:
    """The typed line is not an answer; `reason` says what would be one."""

    reason: str


def describe_approval(approval: Approval) -> list[str]:
    """Return what the agent asks, as lines of text."""
    title = clean_line(approval.title, _MAX_TITLE)
    match approval.kind:
        case ApprovalKind.PERMISSION:
            lines = [f"allow? {title}", *_argument_lines(approval)]
        case ApprovalKind.PLAN:
            lines = [title or "a plan", *_indent(approval.plan or "")]
        case ApprovalKind.QUESTION:
            lines = [title or "a question"]
    return lines if len(lines) <= _MAX_LINES else [*lines[:_MAX_LINES], "  …"]


def _argument_lines(approval: Approval) -> list[str]:
    lines = [
        line
        for name, value in (approval.arguments or {}).items()
        for line in _indent(f"{name}: {value if isinstance(value, str) else encode(value).decode()}")
    ]
    return [line for line in lines if line.strip()]


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in clean(text).splitlines()]


class ApprovalPrompt:
    """Collects the answer to one approval. Pass each typed line to `reply` until it returns a decision."""

    def __init__(self, approval: Approval) -> None:
        self.approval = approval
        self._open_questions = list(approval.questions)
        self._answers: dict[str, list[str]] = {}

    @property
    def instructions(self) -> str:
        """What can be typed now; several lines if it is a question with choices."""
        match self.approval.kind:
            case ApprovalKind.PERMISSION:
                return "[y]es, [n]o (or n and why), [a]lways in this session, [x] no and stop"
            case ApprovalKind.PLAN:
                return "[y]es, [n]o (or n and what to change), [x] no and stop"
            case ApprovalKind.QUESTION:
                return _question_text(self._open_questions[0]) if self._open_questions else "[y]es, [n]o"

    def reply(self, line: str) -> Decision | InvalidReply | None:
        """Interpret one typed line.

        Returns:
            The decision, or an `InvalidReply`, or None if another question follows.
        """
        line = line.strip()
        if self.approval.kind is ApprovalKind.QUESTION and self._open_questions:
            return self._answer_question(self._open_questions[0], line)
        word, _, rest = line.partition(" ")
        match word.lower().rstrip(","), rest.strip():
            case ("y" | "yes", ""):
                return Approve()
            case ("a" | "always", "") if self.approval.kind is ApprovalKind.PERMISSION:
                return Approve(decision="approved_for_session")
            case ("n" | "no", reason):
                return Deny(message=reason or None)
            case ("x", reason):
                return Deny(decision="abort", message=reason or None)
            case _:
                return InvalidReply(f"not understood; {self.instructions}")

    def _answer_question(self, question: Question, line: str) -> Decision | InvalidReply | None:
        if line == "-":
            return Deny(message="declined to answer")
        chosen = _parse_choices(question, line)
        if isinstance(chosen, InvalidReply):
            return chosen
        self._answers[question.id] = chosen
        self._open_questions.pop(0)
        return None if self._open_questions else Approve(answers=self._answers)


def _question_text(question: Question) -> str:
    choices = [f"  {number}) {clean_line(choice)}" for number, choice in enumerate(question.choices, 1)]
    if not choices:
        answer = "your answer"
    else:
        answer = "numbers, separated by commas" if question.multiple else "a number"
        answer += ", or your own words" if question.free_text else ""
    return "\n".join([clean(question.text), *choices, f"{answer}, or - to decline"])


def _parse_choices(question: Question, line: str) -> list[str] | InvalidReply:
    if not line:
        return InvalidReply("an answer is needed, or - to decline")
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
            return InvalidReply(
                f"{clean_line(part)!r} is not a choice; type a number from 1 to {len(question.choices)}"
            )
    return list(dict.fromkeys(chosen))
