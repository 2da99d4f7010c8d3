"""Asks a person for an approval: the text that is shown, and what the line they type means. Does no I/O.

Only a clear yes approves. An empty line, a typing error or a closed terminal never does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Question, riskiest
from farsteer.core.text import clean, clean_line
from farsteer.core.wire import encode

Decision = Approve | Deny

_MAX_LINES = 30
_MIN_LINES = 3
"""How many lines of its arguments each of many tool calls may have."""
_MAX_COLUMNS = 2000
_MAX_TITLE = 10_000
"""Longer than for other titles: the end of a command must not be hidden."""


@dataclass(frozen=True, slots=True)
class InvalidReply:
    """The typed line is not an answer; `reason` says what would be one."""

    reason: str


@dataclass(frozen=True, slots=True)
class ShowWhole:
    """The person wants to see everything that the answer is for, as these lines."""

    lines: list[str]


def describe_approval(approval: Approval, hint: str = "v shows it whole") -> list[str]:
    """Return what the agent asks, as lines of text.

    The first line names every tool call. Long arguments are shortened: a line then says how much is not shown, and
    `hint` how to see it.
    """
    return _describe(approval, _MAX_LINES, hint)


def is_shortened(approval: Approval) -> bool:
    """Return whether `describe_approval` leaves something out."""
    return describe_approval(approval) != _describe(approval, None, "")


def _describe(approval: Approval, max_lines: int | None, hint: str) -> list[str]:
    title = clean_line(approval.title, _MAX_TITLE)
    calls = approval.tool_calls
    per_call = None if max_lines is None else max(_MIN_LINES, max_lines // max(1, len(calls)))
    match approval.kind:
        case ApprovalKind.PERMISSION if calls:
            lines = [f"allow? {title} (the riskiest: {riskiest(calls).tool_kind.value})"]
        case ApprovalKind.PERMISSION:
            lines = [f"allow? {title}", *_shorten(_argument_lines(approval.arguments), max_lines, hint)]
        case ApprovalKind.PLAN:
            lines = [title or "a plan", *_shorten(_indent(approval.plan or ""), max_lines, hint)]
        case ApprovalKind.QUESTION:
            lines = [title or "a question"]
    if approval.seq is not None:
        lines.append(f"  … this is a summary: message {approval.seq} of the log has it whole")
    for number, call in enumerate(calls, 1):
        lines.append(f"  {number}) {clean_line(call.title, _MAX_TITLE)} ({call.tool_kind.value})")
        lines += (f"  {line}" for line in _shorten(_argument_lines(call.arguments), per_call, hint))
    return lines


def _argument_lines(arguments: dict[str, Any] | None) -> list[str]:
    lines = [
        line
        for name, value in (arguments or {}).items()
        for line in _indent(f"{name}: {value if isinstance(value, str) else encode(value).decode()}")
    ]
    return [line for line in lines if line.strip()]


def _shorten(lines: list[str], max_lines: int | None, hint: str) -> list[str]:
    if max_lines is None:
        return lines
    shown = [
        line
        if len(line) <= _MAX_COLUMNS
        else f"{line[:_MAX_COLUMNS]}… {len(line) - _MAX_COLUMNS} more characters ({hint})"
        for line in lines[:max_lines]
    ]
    hidden = len(lines) - max_lines
    return [*shown, f"  … {hidden} more lines ({hint})"] if hidden > 0 else shown


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in clean(text).splitlines()]


class ApprovalPrompt:
    """Collects the answer to one approval. Pass each typed line to `reply` until it returns a decision."""

    def __init__(self, approval: Approval) -> None:
        self.approval = approval
        self._open_questions = list(approval.questions)
        self._answers: dict[str, list[str]] = {}
        self._is_shortened = is_shortened(approval)

    @property
    def instructions(self) -> str:
        """What can be typed now; several lines if it is a question with choices."""
        view = ", [v]iew it whole" if self._is_shortened else ""
        match self.approval.kind:
            case ApprovalKind.PERMISSION:
                return f"[y]es, [n]o (or n and why), [a]lways in this session, [x] no and stop{view}"
            case ApprovalKind.PLAN:
                return f"[y]es, [n]o (or n and what to change), [x] no and stop{view}"
            case ApprovalKind.QUESTION:
                return _question_text(self._open_questions[0]) if self._open_questions else "[y]es, [n]o"

    def reply(self, line: str) -> Decision | InvalidReply | ShowWhole | None:
        """Interpret one typed line.

        Returns:
            The decision, an `InvalidReply`, what to show before the next reply, or None if another question follows.
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
            case ("v" | "view", ""):
                return ShowWhole(_describe(self.approval, None, ""))
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
