"""Only a clear yes approves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.cli.terminal.approval_prompt import ApprovalPrompt, InvalidReply, ShowWhole, describe_approval
from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import (
    Approval,
    ApprovalKind,
    Option,
    OptionKind,
    Question,
    RequestedToolCall,
    join_titles,
    summarize,
)
from farsteer.core.modes import ToolKind


def permission(**more: object) -> Approval:
    return Approval(id="a", kind=ApprovalKind.PERMISSION, title="run ls", created_at=1, **more)  # pyright: ignore[reportArgumentType]


def plan() -> Approval:
    return Approval(id="a", kind=ApprovalKind.PLAN, title="a plan", created_at=1, plan="1. look\n2. do")


def questions(*asked: Question) -> Approval:
    return Approval(id="a", kind=ApprovalKind.QUESTION, title="two things", created_at=1, questions=asked)


ONE = Question(id="colour", text="Which colour?", choices=("red", "green"))
MANY = Question(id="tops", text="Which toppings?", choices=("cheese", "olives", "basil"), multiple=True)
OWN = Question(id="name", text="Your name?", free_text=True)
MIXED = Question(id="where", text="Where?", choices=("here", "there"), free_text=True)


@given(st.text())
def test_nothing_but_a_clear_yes_approves(line: str) -> None:
    for approval in (permission(), plan()):
        if isinstance(ApprovalPrompt(approval).reply(line), Approve):
            assert line.strip().lower().rstrip(",") in {"y", "yes", "a", "always"}


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("y", Approve()),
        (" YES ", Approve()),
        ("a", Approve(decision="approved_for_session")),
        ("n", Deny()),
        ("no, use the staging database", Deny(message="use the staging database")),
        ("x", Deny(decision="abort")),
    ],
)
def test_permissions(line: str, decision: Approve | Deny) -> None:
    assert ApprovalPrompt(permission()).reply(line) == decision


@pytest.mark.parametrize("line", ["", "yy", "yes please", "ok", "a b", "1"])
def test_an_unclear_reply_is_asked_again(line: str) -> None:
    again = ApprovalPrompt(permission()).reply(line)
    assert isinstance(again, InvalidReply)
    assert "[y]es" in again.reason


def test_a_plan_cannot_be_approved_for_the_session() -> None:
    assert isinstance(ApprovalPrompt(plan()).reply("a"), InvalidReply)
    assert ApprovalPrompt(plan()).reply("n smaller steps") == Deny(message="smaller steps")


def test_every_option_of_a_plan_can_be_chosen() -> None:
    options = (
        Option(id="ask", name="Ask before each edit", kind=OptionKind.ALLOW_ONCE),
        Option(id="edits", name="Accept edits", kind=OptionKind.ALLOW_ALWAYS),
        Option(id="all", name="Accept everything", kind=OptionKind.ALLOW_ALWAYS),
        Option(id="keep", name="Keep planning", kind=OptionKind.REJECT_ONCE),
    )
    asked = Approval(
        id="a", kind=ApprovalKind.PLAN, title="a plan", created_at=1, options=options, questions=(ONE,)
    )
    prompt = ApprovalPrompt(asked)
    assert prompt.reply("n smaller") == Deny(message="smaller"), "also before its question is answered"
    assert prompt.reply("2") is None
    assert [choice.key for choice in prompt.choices] == ["y", "a", "1", "n", "x"]
    assert "[1] Accept everything" in prompt.instructions
    answers = {"colour": ["green"]}
    assert prompt.reply("y") == Approve(answers=answers)
    assert prompt.reply("a") == Approve(decision="approved_for_session", answers=answers)
    assert prompt.reply("1") == Approve(decision="approved_for_session", option_id="all", answers=answers)
    assert isinstance(prompt.reply("2"), InvalidReply)


def test_questions_follow_each_other() -> None:
    asking = ApprovalPrompt(questions(ONE, MANY, OWN))
    assert "Which colour?" in asking.instructions
    assert "2) green" in asking.instructions
    assert isinstance(asking.reply("3"), InvalidReply)
    assert isinstance(asking.reply("blue"), InvalidReply)
    assert isinstance(asking.reply(""), InvalidReply)
    assert asking.reply("2") is None
    assert asking.reply("1, basil, 1") is None
    assert asking.reply("Anna, of course") == Approve(
        answers={"colour": ["green"], "tops": ["cheese", "basil"], "name": ["Anna, of course"]}
    )


def test_own_words_beside_choices() -> None:
    assert ApprovalPrompt(questions(MIXED)).reply("somewhere else") == Approve(
        answers={"where": ["somewhere else"]}
    )
    assert ApprovalPrompt(questions(MIXED)).reply("2") == Approve(answers={"where": ["there"]})


def test_a_question_can_be_declined() -> None:
    assert ApprovalPrompt(questions(ONE)).reply("-") == Deny(message="declined to answer")


def test_the_description_is_complete_and_clean() -> None:
    lines = describe_approval(permission(arguments={"command": "rm -rf /\x1b[2K\nls", "deep": {"a": [1]}}))
    assert lines == ["allow? run ls", "  command: rm -rf /[2K", "  ls", '  deep: {"a":[1]}']
    assert describe_approval(plan()) == ["a plan", "  1. look", "  2. do"]
    assert len(describe_approval(permission(arguments={"text": "\n".join("x" * 1000)}))) < 40


def several(*calls: RequestedToolCall) -> Approval:
    return Approval(
        id="a", kind=ApprovalKind.PERMISSION, title=join_titles(calls), created_at=1, tool_calls=calls
    )


def test_every_one_of_several_tool_calls_is_shown() -> None:
    read = RequestedToolCall(title="Read a.txt", tool_kind=ToolKind.READ, arguments={"path": "a.txt"})
    delete = RequestedToolCall(title="rm \u202e-rf x", tool_kind=ToolKind.DELETE, arguments={"path": "x"})
    assert describe_approval(several(read, delete)) == [
        "allow? 2 actions: Read a.txt; rm -rf x (the riskiest: delete)",
        "  1) Read a.txt (read)",
        "    path: a.txt",
        "  2) rm -rf x (delete)",
        "    path: x",
    ]
    hundred = several(*(RequestedToolCall(title=f"rm {n}", arguments={"n": "x\n" * 50}) for n in range(100)))
    lines = describe_approval(hundred)
    assert all(f"  {n + 1}) rm {n} (other)" in lines for n in range(100))


def test_what_is_not_shown_is_counted_and_can_be_seen_whole() -> None:
    text = "\n".join(f"line {n}" for n in range(100)) + "\nrm -rf /"
    approval = permission(arguments={"text": text, "command": "true " + " " * 10_000 + "; rm -rf ~"})
    prompt = ApprovalPrompt(approval)
    assert describe_approval(approval)[-1] == "  … 72 more lines (v shows it whole)"
    assert "[v]iew it whole" in prompt.instructions
    shown = prompt.reply("v")
    assert isinstance(shown, ShowWhole)
    assert "  rm -rf /" in shown.lines
    assert shown.lines[-1].endswith("; rm -rf ~")
    assert prompt.reply("y") == Approve()
    long = permission(arguments={"command": "true " + " " * 10_000 + "; rm -rf ~"})
    (line,) = describe_approval(long)[1:]
    assert line.endswith("… 8026 more characters (v shows it whole)")
    assert "[v]iew" not in ApprovalPrompt(permission()).instructions


def test_a_summary_says_that_it_is_one() -> None:
    short = summarize(permission(arguments={"text": "x" * 10_000}), 7)
    assert describe_approval(short)[-1] == "  … this is a summary: message 7 of the log has it whole"
    many = several(*(RequestedToolCall(title=f"rm {n}", arguments={"n": "x" * 100}) for n in range(100)))
    title = summarize(many, 8).title
    assert title.startswith("100 actions: rm 0;")
    assert title.endswith("…")
