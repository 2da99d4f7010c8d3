"""Asks a person for an approval: the text that is shown, and what the line they type means. Does no I/O.

Only a clear yes approves. An empty line, a typing error or a closed terminal never does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Question, riskiest
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


def describe_whole(approval: Approval) -> list[str]:
    """Return everything that the agent asks, as lines of text, with its questions and their choices."""
    questions = [f"  {line}" for one in approval.questions for line in _question_text(one).splitlines()]
    return [*_describe(approval, None, ""), *questions]


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


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers that are possible now."""

    key: str
    """What to type for it: one character."""
    text: str


class ApprovalPrompt:
    """Collects the answer to one approval. Pass each typed line to `reply` until it returns a decision."""

    def __init__(self, approval: Approval) -> None:
        self.approval = approval
        self._open_questions = list(approval.questions)
        self._answers: dict[str, list[str]] = {}
        self._is_shortened = is_shortened(approval)

    @property
    def question(self) -> Question | None:
        """The question to answer now. None: a decision is wanted."""
        return self._open_questions[0] if self._open_questions else None

    @property
    def choices(self) -> list[Choice]:
        """What can be typed now, the usual answer first. A question without choices has only that it is declined."""
        if self.question is not None:
            choices = [
                Choice(str(number), clean_line(text)) for number, text in enumerate(self.question.choices, 1)
            ]
            return [*choices, Choice("-", "decline to answer")]
        names = {key: clean_line(option.name) for key, option in self._options().items()}
        choices = [Choice("y", names.pop("y", "yes"))]
        if "a" in names or self._takes_always:
            choices.append(Choice("a", names.pop("a", "always in this session")))
        denial = Choice("n", names.pop("n", "no"))
        choices += [Choice(key, name) for key, name in names.items()]
        choices += [denial, Choice("x", "no, and stop the turn")]
        return [*choices, Choice("v", "view it whole")] if self._is_shortened else choices

    @property
    def instructions(self) -> str:
        """What can be typed now; several lines if it is a question with choices."""
        if self.question is not None:
            return _question_text(self.question)
        view = ", [v]iew it whole" if self._is_shortened else ""
        options = self._options()
        more = "".join(
            f", [{key}] {clean_line(option.name)}"
            for key, option in options.items()
            if key not in ("y", "n") and not (key == "a" and self._takes_always)
        )
        match self.approval.kind:
            case ApprovalKind.PERMISSION:
                always = ", [a]lways in this session" if self._takes_always else ""
                return f"[y]es, [n]o (or n and why){always}{more}, [x] no and stop{view}"
            case ApprovalKind.PLAN:
                return f"[y]es, [n]o (or n and what to change){more}, [x] no and stop{view}"
            case ApprovalKind.QUESTION:
                return "[y]es, [n]o"

    @property
    def _takes_always(self) -> bool:
        options = self.approval.options
        return self.approval.kind is ApprovalKind.PERMISSION and (
            not options or any(option.kind is OptionKind.ALLOW_ALWAYS for option in options)
        )

    def _options(self) -> dict[str, Option]:
        """Return the agent's own options by the key that chooses each."""
        keys = {OptionKind.ALLOW_ONCE: "y", OptionKind.ALLOW_ALWAYS: "a", OptionKind.REJECT_ONCE: "n"}
        found: dict[str, Option] = {}
        for option in self.approval.options:
            key = keys.pop(option.kind, "")
            found[key or str(sum(name.isdigit() for name in found) + 1)] = option
        return found

    def reply(self, line: str) -> Decision | InvalidReply | ShowWhole | None:
        """Interpret one typed line.

        Returns:
            The decision, an `InvalidReply`, what to show before the next reply, or None if another question follows.
        """
        line = line.strip()
        word, _, rest = line.partition(" ")
        word, rest = word.lower().rstrip(","), rest.strip()
        is_refusal = self.approval.kind is ApprovalKind.PLAN and word in ("n", "no", "x")
        if self.question is not None and not is_refusal:
            return self._answer_question(self.question, line)
        return self._decide(word, rest)

    def _decide(self, word: str, rest: str) -> Decision | InvalidReply | ShowWhole:
        options = self._options()
        match word, rest:
            case ("y" | "yes", ""):
                return self._approve()
            case ("a" | "always", "") if "a" in options or self._takes_always:
                return self._approve(always=True)
            case ("n" | "no", reason):
                return Deny(message=reason or None)
            case ("v" | "view", ""):
                return ShowWhole(_describe(self.approval, None, ""))
            case ("x", reason):
                return Deny(decision="abort", message=reason or None)
            case (digit, "") if digit.isdigit() and digit in options:
                option = options[digit]
                if not option.kind.allows:
                    return Deny(option_id=option.id)
                return self._approve(always=option.kind is OptionKind.ALLOW_ALWAYS, option_id=option.id)
            case _:
                return InvalidReply(f"not understood; {self.instructions}")

    def _approve(self, *, always: bool = False, option_id: str | None = None) -> Approve:
        answers = self._answers or None
        if always:
            return Approve(decision="approved_for_session", option_id=option_id, answers=answers)
        return Approve(option_id=option_id, answers=answers)

    def _answer_question(self, question: Question, line: str) -> Decision | InvalidReply | None:
        if line == "-":
            return Deny(message="declined to answer")
        chosen = _parse_choices(question, line)
        if isinstance(chosen, InvalidReply):
            return chosen
        self._answers[question.id] = chosen
        self._open_questions.pop(0)
        if self._open_questions or self.approval.kind is not ApprovalKind.QUESTION:
            return None
        return Approve(answers=self._answers)


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
