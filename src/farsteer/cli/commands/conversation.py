"""`farsteer new`, `send` and `logs`: a conversation with an agent, one command at a time."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.core.errors import BadRequest, Conflict
from farsteer.core.events import AgentMessage, Delta, Entry
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Delivery
from farsteer.core.text import clean, clean_line, printable_json

if TYPE_CHECKING:
    from farsteer.client import AsyncClient
    from farsteer.core.api import MachineView

NEW_DESCRIPTION = """\
Create a session and print its id. The agent starts at once and waits for messages;
PROMPT is the first one. The session stays until it is deleted: `farsteer attach`
follows it, `farsteer send` writes to it, `farsteer sessions stop` ends its process.
"""

NEW_EXAMPLES = """\
  farsteer new                                   # in this directory
  farsteer new ~/project "run the tests"
  farsteer new ~/project --agent claude --mode acceptEdits --title "the tests"
  farsteer new /srv/app --machine build-1 - < prompt.txt
  farsteer new . "fix the login" --branch login --base main
  farsteer attach $(farsteer new)
"""

SEND_DESCRIPTION = """\
Send a message to a session and print the message's id. If the agent works, the
message waits for its turn. --wait prints what the agent answers and ends with it;
approvals are for others to answer meanwhile, see `farsteer approvals`.
"""

SEND_EXAMPLES = """\
  farsteer send 3f2a now the documentation
  farsteer send 3f2a --wait "what did you change?"
  farsteer send 3f2a --now "stop, use the other file"
  git diff | farsteer send 3f2a -
"""

LOGS_DESCRIPTION = """\
Print the log of a session: messages, tool calls, approvals, what happened to the
agent. With -f it goes on as things happen, until the session is deleted or Ctrl-C.
"""

LOGS_EXAMPLES = """\
  farsteer logs 3f2a
  farsteer logs -f -n 20 3f2a
  farsteer logs --json 3f2a | jq -r 'select(.content.kind=="agent_message").content.text'
"""


def new_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("new", NEW_DESCRIPTION, NEW_EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", help="working directory of the agent (default: this one)"
    )
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="first message; - reads it from stdin")
    parser.add_argument("--agent", metavar="A", help="agent to use (default: the one the machine prefers)")
    context.add_machine_option(parser)
    parser.add_argument(
        "--mode",
        choices=[*map(str, PermissionMode)],
        metavar="MODE",
        help=f"what the agent may do without asking: {', '.join(PermissionMode)}",
    )
    parser.add_argument("--model", metavar="M", help="model the agent uses")
    parser.add_argument(
        "--effort",
        choices=[*map(str, ReasoningEffort)],
        metavar="E",
        help=f"reasoning effort: {', '.join(ReasoningEffort)}",
    )
    parser.add_argument("--title", metavar="T", help="title (default: the first message)")
    parser.add_argument(
        "--worktree",
        action="store_true",
        help="work in a new git worktree of DIR, on a branch of its own (see `farsteer worktrees`)",
    )
    parser.add_argument("--branch", metavar="NAME", help="what its branch is named after; means --worktree")
    parser.add_argument(
        "--base",
        metavar="B",
        help="branch, tag or commit that it begins with (default: what is checked out); means --worktree",
    )
    return context.run(_new(parser.parse_intermixed_args(argv)))


async def _new(arguments: argparse.Namespace) -> int:
    from farsteer.client.machines import choose_machine

    prompt = None if arguments.prompt is None else _read_text([arguments.prompt])
    async with context.hub_client(arguments) as client:
        machine = choose_machine(await client.machines(), arguments.machine)
        session = await client.start(
            _directory(arguments, machine),
            agent=arguments.agent,
            prompt=prompt,
            machine=machine.id,
            model=arguments.model,
            effort=arguments.effort,
            permission_mode=arguments.mode,
            title=arguments.title,
            worktree=arguments.branch or bool(arguments.worktree or arguments.base),
            base=arguments.base,
            source="cli",
        )
        print(session.id)
    if sys.stderr.isatty():
        print(f"`farsteer attach {session.id[:8]}` follows it", file=sys.stderr)
    return SUCCESS


def _directory(arguments: argparse.Namespace, machine: MachineView) -> str:
    """Return the directory of a new session. Raises BadRequest if it cannot be what the person means."""
    given: str | None = arguments.directory
    here = machine.host == socket.gethostname()
    if given is None and not here:
        name = clean_line(machine.name or machine.host)
        raise BadRequest(
            f"the session would run on {name}: name a directory of that machine, `farsteer new DIR`"
        )
    if given is not None and here and arguments.prompt is None and not Path(given).expanduser().is_dir():
        shown = clean_line(given, 100)
        raise BadRequest(
            f"there is no directory {shown!r}; a prompt comes after the directory: `farsteer new . {shown!r}`"
        )
    return given or "."


def send_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("send", SEND_DESCRIPTION, SEND_EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("id", metavar="ID", help="id of a session, or its first characters")
    parser.add_argument("text", nargs="+", metavar="TEXT", help="the message; - reads it from stdin")
    delivery = parser.add_mutually_exclusive_group()
    delivery.add_argument("--now", action="store_true", help="interrupt the running turn and go first")
    delivery.add_argument(
        "--steer", action="store_true", help="add the message to the running turn, if the agent can do that"
    )
    parser.add_argument(
        "--wait", action="store_true", help="wait for the end of the turn and print the answer"
    )
    arguments = parser.parse_intermixed_args(argv)
    if arguments.wait and arguments.steer:
        parser.error("--wait cannot be used with --steer: such a message has no turn of its own")
    arguments.text = _read_text(arguments.text)
    return context.run(_send(arguments))


async def _send(arguments: argparse.Namespace) -> int:
    delivery = Delivery.NOW if arguments.now else Delivery.STEER if arguments.steer else Delivery.QUEUE
    async with context.hub_client(arguments) as client:
        session = await context.find_session(client, arguments.id)
        if arguments.wait:
            for approval in session.approvals:
                # The message waits behind the turn that asks.
                _print_approval_hint(approval.id, approval.title)
            await _send_and_wait(client, session.id, arguments.text, delivery)
            return SUCCESS
        accepted = await client.send(session.id, arguments.text, delivery=delivery)
    print(accepted.id)
    if accepted.position:
        print(f"queued behind {accepted.position} other messages", file=sys.stderr)
    return SUCCESS


async def _send_and_wait(client: AsyncClient, session_id: str, text: str, delivery: Delivery) -> None:
    from farsteer.client.turn import AsyncTurn

    turn, separator = AsyncTurn(client, session_id, text), ""
    async with turn:
        if delivery is Delivery.NOW:
            # A conflict says that the agent has it already.
            with suppress(Conflict):
                await client.send_now(session_id, turn.item_id)
        async for update in turn:
            content = update.entry.content if update.entry is not None else None
            if isinstance(content, AgentMessage) and content.parent_tool_call_id is None:
                print(separator + (clean(content.text) if sys.stdout.isatty() else content.text), flush=True)
                separator = "\n"
            if update.approval is not None:
                _print_approval_hint(update.approval.id, update.approval.title)
    (await turn.finish()).check()


def _print_approval_hint(approval_id: str, title: str) -> None:
    print(
        f"waiting for an approval: {clean_line(title, 200)} (`farsteer approvals {approval_id}` shows it)",
        file=sys.stderr,
        flush=True,
    )


def _read_text(words: list[str]) -> str:
    text = sys.stdin.buffer.read().decode(errors="replace") if words == ["-"] else " ".join(words)
    if not text.strip():
        raise BadRequest("the message is empty")
    return text


def logs_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("logs", LOGS_DESCRIPTION, LOGS_EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("id", metavar="ID", help="id of a session, or its first characters")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what happens from now on")
    parser.add_argument(
        "-n", "--tail", type=int, metavar="N", help="begin with the last N entries (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    return context.run(_print_logs(parser.parse_intermixed_args(argv)))


async def _print_logs(arguments: argparse.Namespace) -> int:
    from farsteer.cli.terminal.follower import Follower

    tail = sys.maxsize if arguments.tail is None else max(0, arguments.tail)
    printer = _LogPrinter(as_json=arguments.json)
    async with context.hub_client(arguments) as client:
        session = await context.find_session(client, arguments.id)
        if arguments.follow:
            async for update in Follower(client, session.id, tail).updates():
                if not isinstance(update, Delta):
                    printer.print(update)
            print("the session was deleted", file=sys.stderr)
            return SUCCESS
        if arguments.tail is None:
            async for entry in client.messages(session.id):
                printer.print(entry)
            return SUCCESS
        entries: list[Entry] = []
        async for entry in client.history(session.id):
            if len(entries) >= tail:
                break
            entries.append(entry)
        for entry in reversed(entries):
            printer.print(entry)
    return SUCCESS


class _LogPrinter:
    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._titles: dict[str, str] = {}

    def print(self, entry: Entry) -> None:
        from farsteer.cli.terminal.log_view import entry_lines
        from farsteer.cli.terminal.text import print_styled

        if self._as_json:
            print(printable_json(entry), flush=True)
            return
        for line in entry_lines(entry, self._titles):
            print_styled(sys.stdout, line)
