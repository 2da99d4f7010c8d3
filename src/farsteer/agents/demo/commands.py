"""What the agent does with a message: it runs the commands in it, or answers it."""

from __future__ import annotations

import json
import re
from typing import Any

from farsteer.agents.demo import tools
from farsteer.agents.demo.command_table import CommandGroup, CommandTable, UsageError, parse_number
from farsteer.agents.demo.faults import FAULTS, START_FAULTS
from farsteer.agents.demo.tools import ToolFailed, use_tools
from farsteer.agents.demo.turn import AskReply, DemoTurn
from farsteer.core.modes import PermissionMode

_PACE = 0.003
"""Seconds between the words of a friendly answer: enough to see it stream."""
_RECALL = re.compile(
    r"what (?:(?P<what>[\w -]+) )?(?:did i (?:say|tell|mention|give)|have i (?:said|told|mentioned|given))\b",
    re.IGNORECASE,
)
_REPLY = re.compile(r"\b(?:just|only) (?:reply|say|answer) (?P<text>[^.!\n]+)[.!]?\s*$", re.IGNORECASE)

_TALK = CommandGroup("Talk to it")
_WORK = CommandGroup("Let it work")
_QUESTIONS = CommandGroup("Let it ask")


def run_message(turn: DemoTurn, text: str) -> None:
    """Run each command of the message, or answer the message if it has none."""
    commands = COMMANDS.parse(text)
    if not commands:
        _answer(turn, text)
    for command, argument in commands:
        turn.check_interrupt()
        try:
            command.run(turn, argument)
        except (UsageError, ToolFailed) as error:
            turn.send_message(f"I could not do that: {error}.")


def acknowledge_attachments(turn: DemoTurn, attachments: list[dict[str, Any]]) -> None:
    """Answer with the size and the digest of each attachment, to show that it arrived whole."""
    import base64
    import hashlib

    for attachment in attachments:
        data = base64.b64decode(attachment.get("data") or "")
        digest = hashlib.sha256(data).hexdigest()[:12]
        turn.send_message(
            f"I got {attachment['name']} ({attachment['mimeType']}, {len(data)} bytes, sha256 {digest})."
        )


def _answer(turn: DemoTurn, text: str) -> None:
    """Answer a message that has no command."""
    sent = text.strip()
    if asked := _RECALL.match(sent):
        _recall(turn, asked["what"])
        return
    if wanted := _REPLY.search(sent):
        turn.send_message(wanted["text"])
        return
    quoted = sent if len(sent) <= 200 else sent[:199] + "…"
    turn.send_message(
        f"You said “{quoted}”. I am the demo agent: no model, no network, always the same answers. "
        "Try `run ls`, `write notes.txt hello`, `ask`, `plan`, `think`, `todo`, `slow 50` or `history`; "
        "`help` lists everything.",
        pace=_PACE,
    )


def _recall(turn: DemoTurn, what: str | None) -> None:
    """Answer with the person's last messages, or with the value of `what` in them ("the password is X")."""
    earlier = [record["text"] for record in turn.session.history.messages[:-1] if record["role"] == "user"]
    if what is not None:
        value = re.compile(rf"\b{re.escape(what)} (?:is|was|are) (?P<it>\S+?)[.,;!?]?(?:\s|$)", re.IGNORECASE)
        found = [match["it"] for text in earlier if (match := value.search(text))]
        turn.send_message(found[-1] if found else f"You have told me no {what}.")
    elif earlier:
        quoted = "; ".join(f"“{text}”" for text in earlier[-5:])
        turn.send_message(f"You said {quoted}.")
    else:
        turn.send_message("You have said nothing before this.")


# Talking


@_TALK.command("help", "shows this help")
def _help(turn: DemoTurn, argument: str) -> None:
    turn.send_message(COMMANDS.help_text())


@_TALK.command("say <text>", "answers with exactly that text, without a delay")
def _say(turn: DemoTurn, argument: str) -> None:
    turn.send_message(argument or "…")


@_TALK.command("slow [words]", "streams that many words (20), one every 50 ms")
def _slow(turn: DemoTurn, argument: str) -> None:
    count = int(parse_number(argument, 20, 1, 10_000))
    turn.send_message(" ".join(f"word{n}" for n in range(1, count + 1)), pace=0.05)


@_TALK.command("think [text]", "shows a thought before it answers")
def _think(turn: DemoTurn, argument: str) -> None:
    thought = argument or "What would a careful agent do here? First look, then ask, then act."
    turn.send_thought(thought, pace=_PACE)
    turn.send_message("I have thought about it.")


@_TALK.command("history", "lists the conversation so far, also after a restart")
def _history(turn: DemoTurn, argument: str) -> None:
    records = turn.session.history.messages[:-1]
    lines = [f"{number}. {record['role']}: {record['text']}" for number, record in enumerate(records, 1)]
    turn.send_message("\n".join(lines) or "Nothing yet.")


@_TALK.command("model", "shows its model, reasoning effort and permission mode")
def _model(turn: DemoTurn, argument: str) -> None:
    session = turn.session
    turn.send_message(f"model {session.model}, effort {session.effort}, permission mode {session.mode.value}")


@_TALK.command("usage", "shows how many tokens its context holds; every turn ends with a usage report")
def _usage(turn: DemoTurn, argument: str) -> None:
    turn.send_message(f"My context holds {turn.session.count_tokens()} tokens.")


@_TALK.command(
    "servers", "lists the MCP servers and additional directories it was given; it does not use them"
)
def _servers(turn: DemoTurn, argument: str) -> None:
    import hashlib

    lines: list[str] = []
    for server in turn.session.mcp_servers:
        secret = json.dumps([server.get("args"), server.get("env"), server.get("headers")])
        digest = hashlib.sha256(secret.encode()).hexdigest()[:12]
        where = server.get("command") or server.get("url")
        lines.append(f"{server['name']}: {server.get('type', 'stdio')} {where}, the rest is {digest}")
    lines += [f"directory {path}" for path in turn.session.additional_directories]
    turn.send_message("\n".join(lines) or "I was given none.")


@_TALK.command("title <text>", "sets the title of the session")
def _title(turn: DemoTurn, argument: str) -> None:
    if not argument:
        raise UsageError("`title` needs a text")
    turn.session.writer.send("title", title=argument[:200])
    turn.send_message(f"This session is now called “{argument[:200]}”.")


# Working

_STEPS = ("Look around", "Make the change", "Check that it works")


@_WORK.command("run <command>", "runs a shell command in the session's directory")
def _run(turn: DemoTurn, argument: str) -> None:
    if not argument:
        raise UsageError("`run` needs a command, for example `run ls`")
    done = use_tools(turn, tools.shell_tool(argument))
    turn.send_message("The command has run." if done else "The command failed.")


@_WORK.command("read <path>", "shows a file")
def _read(turn: DemoTurn, argument: str) -> None:
    use_tools(turn, tools.read_tool(turn, _check_path(argument, "read")))
    turn.send_message(f"That is {argument}.")


@_WORK.command("write <path> <text>", "writes a file")
def _write(turn: DemoTurn, argument: str) -> None:
    path, _, text = argument.partition(" ")
    _report_change(
        turn, use_tools(turn, tools.write_tool(turn, _check_path(path, "write"), text + "\n")), path
    )


@_WORK.command("edit <path> <old> -> <new>", "replaces text in a file")
def _edit(turn: DemoTurn, argument: str) -> None:
    path, _, change = argument.partition(" ")
    old, arrow, new = change.partition(" -> ")
    if not arrow:
        raise UsageError("`edit` needs a path, the old text, ` -> ` and the new text")
    _report_change(turn, use_tools(turn, tools.edit_tool(turn, _check_path(path, "edit"), old, new)), path)


@_WORK.command("delete <path>", "deletes a file")
def _delete(turn: DemoTurn, argument: str) -> None:
    _report_change(turn, use_tools(turn, tools.delete_tool(turn, _check_path(argument, "delete"))), argument)


@_WORK.command("several [count]", "writes that many files (2), asking for all permissions at once")
def _several(turn: DemoTurn, argument: str) -> None:
    count = int(parse_number(argument, 2, 1, 50))
    names = [f"several-{n}.txt" for n in range(1, count + 1)]
    done = use_tools(turn, *(tools.write_tool(turn, name, f"{name}\n") for name in names))
    turn.send_message(f"{done} of {count} files are written.")


@_WORK.command("todo", "makes a to-do list and works through it")
def _todo(turn: DemoTurn, argument: str) -> None:
    _work_through_steps(turn)
    turn.send_message("Everything on the list is done.")


@_WORK.command("work [steps] [seconds]", "runs a long turn: that many steps (10), each that long (0.1)")
def _work(turn: DemoTurn, argument: str) -> None:
    steps, _, seconds = argument.partition(" ")
    count, length = int(parse_number(steps, 10, 1, 100_000)), parse_number(seconds, 0.1, 0, 3600)
    for step in range(1, count + 1):
        turn.pause(length)
        turn.send_message(f"Step {step} of {count} is done.")
        turn.run_steering()


def _work_through_steps(turn: DemoTurn) -> None:
    for current in range(len(_STEPS) + 1):
        turn.session.writer.send("plan", entries=[_plan_entry(n, current) for n in range(len(_STEPS))])
        turn.pause(0.02)


def _plan_entry(index: int, current: int) -> dict[str, str]:
    status = "completed" if index < current else "in_progress" if index == current else "pending"
    return {"content": _STEPS[index], "status": status}


def _check_path(path: str, command: str) -> str:
    if not path:
        raise UsageError(f"`{command}` needs a path")
    return path


def _report_change(turn: DemoTurn, done: int, path: str) -> None:
    turn.send_message(f"{path} is done." if done else f"{path} is as it was.")


# Asking

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


@_QUESTIONS.command("ask", "asks a question with one answer")
def _ask(turn: DemoTurn, argument: str) -> None:
    _ask_questions(turn, _ONE)


@_QUESTIONS.command("ask many", "asks a question with several answers")
def _ask_many(turn: DemoTurn, argument: str) -> None:
    _ask_questions(turn, _MANY)


@_QUESTIONS.command("ask text", "asks a question with a free text as its answer")
def _ask_text(turn: DemoTurn, argument: str) -> None:
    _ask_questions(turn, _FREE)


@_QUESTIONS.command("ask all", "asks these three questions together")
def _ask_all(turn: DemoTurn, argument: str) -> None:
    _ask_questions(turn, _ONE, _MANY, _FREE)


@_QUESTIONS.command("plan", "proposes a plan and follows it if you approve")
def _plan(turn: DemoTurn, argument: str) -> None:
    _propose(turn, "Approve this plan?", _PLAN)


@_QUESTIONS.command("plan many", "proposes two plans to choose from")
def _plan_many(turn: DemoTurn, argument: str) -> None:
    reply = _propose(turn, "Approve one of these plans?", _PLANS, questions=(_WHICH,))
    chosen = reply.answers.get(_WHICH["id"]) if reply.allow else None
    if chosen:
        turn.send_message(f"It was {', '.join(chosen)}.")


def _propose(turn: DemoTurn, title: str, plan: str, **fields: Any) -> AskReply:
    reply = turn.ask("plan", title, plan=plan, options=_PLAN_OPTIONS, **fields)
    if not reply.allow:
        turn.send_message(f"I drop the plan: {reply.message}" if reply.message else "I drop the plan.")
        return reply
    if turn.session.mode is PermissionMode.PLAN:
        turn.session.switch_mode(PermissionMode(reply.mode or PermissionMode.DEFAULT))
    _work_through_steps(turn)
    turn.send_message("I have followed the plan.")
    return reply


def _ask_questions(turn: DemoTurn, *questions: dict[str, Any]) -> None:
    title = questions[0]["text"] if len(questions) == 1 else f"{len(questions)} questions"
    reply = turn.ask("question", title, questions=questions)
    if not reply.allow:
        turn.send_message("Then I do not know.")
        return
    answers = [
        f"{question['id']}: {', '.join(reply.answers.get(question['id'], []))}" for question in questions
    ]
    turn.send_message(f"You chose {'; '.join(answers)}.")


COMMANDS = CommandTable(
    _TALK,
    _WORK,
    _QUESTIONS,
    FAULTS,
    appendix=(
        "At its start, for tests (the option `demo` of a session; separate those of several launches with commas)",
        [(name, fault.summary) for name, fault in START_FAULTS.items()],
    ),
)
