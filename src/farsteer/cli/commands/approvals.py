"""`farsteer approvals`, `approve`, `deny` and `answer`: what agents ask, and what a person answers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.approval_prompt import ApprovalPrompt, Decision, InvalidReply, describe_whole
from farsteer.cli.terminal.text import ago, table
from farsteer.core.api import ApprovalView, Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Option
from farsteer.core.errors import BadRequest, NotFound
from farsteer.core.text import clean_line, printable_json

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

LIST_DESCRIPTION = """\
List what agents wait for: permissions, plans and questions of all sessions, the
oldest first. With ID, show one of them whole. The first answer counts, whoever
gives it: here, in `farsteer attach`, in an editor or over the API.
"""

LIST_EXAMPLES = """\
  farsteer approvals
  farsteer approvals 7c1e                # all of it, with its options
  farsteer approvals --json | jq -r '.approval | [.id, .title] | @tsv'
"""

APPROVE_DESCRIPTION = """\
Allow what an agent asks for, or accept its plan. `farsteer approvals ID` shows the
whole of it first.
"""

APPROVE_EXAMPLES = """\
  farsteer approve 7c1e
  farsteer approve 7c1e --always         # the same, for the rest of the session
  farsteer approve 7c1e --option proceed_auto_run_low
"""

DENY_DESCRIPTION = """\
Refuse what an agent asks for. The agent goes on without it, unless --stop ends the
turn. It is told the reason, and usually acts on it.
"""

DENY_EXAMPLES = """\
  farsteer deny 7c1e
  farsteer deny 7c1e --reason "use the staging server"
  farsteer deny 7c1e --stop
"""

ANSWER_DESCRIPTION = """\
Answer the questions of an agent: one ANSWER for each, in their order. An answer is
the number of a choice or its text, your own words where the question allows them,
or - to decline. Several choices of one question are separated by commas.
`farsteer approvals ID` shows the questions.
"""

ANSWER_EXAMPLES = """\
  farsteer answer 7c1e 2
  farsteer answer 7c1e blue              # the choice, or your own words
  farsteer answer 7c1e 1,3 "next week"   # two questions
"""

_ID_HELP = "id of an approval, or its first characters"
_SHORT_ID = 8


def approvals_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("approvals", LIST_DESCRIPTION, LIST_EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("id", nargs="?", metavar="ID", help=f"show this one whole: {_ID_HELP}")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    return context.run(_list(parser.parse_args(argv)))


def approve_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("approve", APPROVE_DESCRIPTION, APPROVE_EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("id", metavar="ID", help=_ID_HELP)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--always", action="store_true", help="approve the same for the rest of the session too"
    )
    choice.add_argument("--option", metavar="X", help="choose this option of the agent: its id or name")
    return context.run(_approve(parser.parse_args(argv)))


def deny_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("deny", DENY_DESCRIPTION, DENY_EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("id", metavar="ID", help=_ID_HELP)
    parser.add_argument("--reason", metavar="TEXT", help="why, or what to do instead; the agent reads it")
    parser.add_argument("--stop", action="store_true", help="end the turn too")
    return context.run(_deny(parser.parse_args(argv)))


def answer_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("answer", ANSWER_DESCRIPTION, ANSWER_EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("id", metavar="ID", help=_ID_HELP)
    parser.add_argument("answers", nargs="+", metavar="ANSWER", help="one for each question")
    return context.run(_answer(parser.parse_intermixed_args(argv)))


async def _list(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        if arguments.id is None:
            found = sorted(await client.approvals(), key=lambda view: view.approval.created_at)
        else:
            found = [await _find(client, arguments.id)]
    if arguments.json:
        for view in found:
            print(printable_json(view))
    elif arguments.id is not None:
        print("\n".join(_describe(found[0])))
    elif found:
        print(_table(found))
    else:
        print("no agent waits for an answer", file=sys.stderr)
    return SUCCESS


def _table(found: Sequence[ApprovalView]) -> str:
    size = _id_size([view.approval.id for view in found])
    rows = [
        (
            view.approval.id[:size],
            view.session_id[:_SHORT_ID],
            view.approval.kind.value,
            ago(view.approval.created_at),
            view.approval.title,
        )
        for view in found
    ]
    return table([("ID", "SESSION", "KIND", "AGE", "TITLE"), *rows], get_terminal_size().columns)


def _id_size(ids: Sequence[str]) -> int:
    """Return how many characters of the ids tell them apart."""
    size = _SHORT_ID
    while len({one[:size] for one in ids}) < len(set(ids)):
        size += 1
    return size


def _describe(view: ApprovalView) -> list[str]:
    approval = view.approval
    title = f" {clean_line(view.session_title, 60)!r}" if view.session_title else ""
    lines = [f"{clean_line(view.agent)} in session {view.session_id[:_SHORT_ID]}{title} asks:"]
    lines += describe_whole(approval)
    if approval.kind is ApprovalKind.QUESTION:
        return [*lines, f"answer with `farsteer answer {approval.id[:_SHORT_ID]} ANSWER`"]
    lines += (f"  option {clean_line(option.id)}: {clean_line(option.name)}" for option in approval.options)
    short = approval.id[:_SHORT_ID]
    return [*lines, f"answer with `farsteer approve {short}` or `farsteer deny {short}`"]


async def _approve(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        view = await _find(client, arguments.id)
        if view.approval.kind is ApprovalKind.QUESTION:
            raise BadRequest(_wrong_kind(view.approval))
        option = None if arguments.option is None else _option(view.approval, arguments.option)
        decision = Approve(
            decision="approved_for_session" if arguments.always else "approved",
            option_id=option and option.id,
        )
        await _give(client, view, decision)
    return SUCCESS


async def _deny(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        view = await _find(client, arguments.id)
        decision = "abort" if arguments.stop else "denied"
        await _give(client, view, Deny(decision=decision, message=arguments.reason))
    return SUCCESS


async def _answer(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        view = await _find(client, arguments.id)
        if view.approval.kind is not ApprovalKind.QUESTION:
            raise BadRequest(_wrong_kind(view.approval))
        await _give(client, view, _decide(view.approval, arguments.answers))
    return SUCCESS


async def _give(client: AsyncClient, view: ApprovalView, decision: Decision) -> None:
    answered = await client.answer(view.session_id, view.approval.id, decision)
    outcome = "answered" if isinstance(decision, Approve) and decision.answers else answered.outcome.value
    print(f"{outcome.replace('_', ' ')}: {clean_line(view.approval.title)}", file=sys.stderr)


async def _find(client: AsyncClient, given: str) -> ApprovalView:
    """Return the open approval with the id `given` or an id that starts with it."""
    views = await client.approvals()
    found = [view for view in views if view.approval.id.startswith(given)]
    found = [view for view in found if view.approval.id == given] or found
    if len(found) == 1 and given:
        return found[0]
    if found:
        choices = "; ".join(_choice(view) for view in found[:5])
        raise BadRequest(f"{len(found)} approvals have ids that start with {given!r}: {choices}")
    waiting = [view for view in views if view.session_id.startswith(given)]
    if waiting:
        choices = "; ".join(_choice(view) for view in waiting[:5])
        raise NotFound(
            f"{given!r} is a session, not an approval; that session waits for {choices}: use that id"
        )
    raise NotFound(
        f"no open approval has an id that starts with {given!r}; perhaps it was answered already: "
        "`farsteer approvals` lists what is open"
    )


def _choice(view: ApprovalView) -> str:
    return f"{view.approval.id} ({clean_line(view.approval.title, 60)})"


def _option(approval: Approval, given: str) -> Option:
    for option in approval.options:
        if given in (option.id, option.name):
            if not option.kind.allows:
                raise BadRequest(f"the option {given!r} refuses: `farsteer deny` does that")
            return option
    known = ", ".join(f"{one.id} ({clean_line(one.name)})" for one in approval.options if one.kind.allows)
    raise BadRequest(
        f"no option {given!r}; choose from {known}"
        if known
        else "this approval has no options: leave out --option"
    )


def _wrong_kind(approval: Approval) -> str:
    short = approval.id[:_SHORT_ID]
    if approval.kind is ApprovalKind.QUESTION:
        return f"this is a question: `farsteer answer {short} ANSWER`, or `farsteer deny {short}` to decline"
    return f"this is a {approval.kind.value}, not a question: `farsteer approve {short}` or `farsteer deny {short}`"


def _decide(approval: Approval, answers: list[str]) -> Decision:
    questions = approval.questions
    if len(questions) == 1:
        answers = [(", " if questions[0].multiple else " ").join(answers)]
    if len(answers) != len(questions):
        texts = "; ".join(clean_line(question.text, 100) for question in questions)
        raise BadRequest(f"there are {len(questions)} questions, each needs one answer: {texts}")
    prompt = ApprovalPrompt(approval)
    for question, answer in zip(questions, answers, strict=True):
        decision = prompt.reply(answer)
        if isinstance(decision, InvalidReply):
            choices = ", ".join(
                f"{number}) {clean_line(choice)}" for number, choice in enumerate(question.choices, 1)
            )
            raise BadRequest(f"{clean_line(question.text, 200)} {decision.reason}: {choices}")
        if isinstance(decision, Approve | Deny):
            return decision
    raise BadRequest("this question cannot be answered here: use `farsteer attach`")
