"""`farsteer sessions`: lists, shows and changes the sessions of a hub."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.commands import foreign_sessions, worktree_actions
from farsteer.cli.commands.foreign_sessions import confirm_delete
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.text import ago, facts_table, one_line, table
from farsteer.core.api import SessionRewound, SessionView
from farsteer.core.errors import BadRequest
from farsteer.core.events import FileRestore, SessionStatus, UserMessage
from farsteer.core.text import clean, clean_line, printable_json

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

DESCRIPTION = f"""\
List, show and change the sessions of a hub. An ID may be shortened to its first
characters if no other session has the same ones.

actions:
  list                  list sessions, the one used last first (the default)
  show ID ...           show everything about a session
  log ID ...            list your messages in a session, with their numbers
  rename ID TITLE       change the title
  stop ID ...           stop the agent's process, keep the session
  resume ID ...         start the agent's process; sending a message does so too
  rewind ID NUMBER      remove that message and everything after it from the
                        conversation, and restore files if the agent supports it
  fork ID [NUMBER]      copy a session into a new one, up to but without that
                        message, and print the new id
  handoff ID AGENT [TEXT]
                        go on with another agent in the same directory, with TEXT as
                        the first message, and print the new id
  export ID ...         write a session to stdout
  delete ID ...         stop the agent and delete the session with its history
{worktree_actions.HELP}  foreign               list sessions that a machine has and the hub never had:
                        of another hub, or lost with the hub's database
  adopt ID ...          make such a session one of this hub; it goes on as it is
  end ID ...            stop the agent of such a session and delete it there
"""

EXAMPLES = """\
  farsteer sessions
  farsteer sessions list --agent demo --state working
  farsteer sessions show 3f2a
  farsteer sessions rewind 3f2a 17
  farsteer sessions export 3f2a --format markdown > talk.md
  farsteer sessions --json | jq -r .id
"""

_ACTIONS = [
    "list", "show", "log", "rename", "stop", "resume", "rewind", "fork", "handoff", "export", "delete",
    *worktree_actions.ACTIONS, *foreign_sessions.ACTIONS,
]  # fmt: skip
_ACTIONS_WITH_VALUE = {"rename", "rewind", "fork", "handoff"}
"""Actions that take one ID and a title or number, instead of several IDs."""


def sessions_command(argv: Sequence[str]) -> int:
    parser = _parser()
    arguments = parser.parse_intermixed_args(argv)
    if bool(arguments.ids) == (arguments.action in ("list", "foreign")):
        parser.error(
            f"{arguments.action} takes no ID" if arguments.ids else f"{arguments.action} needs an ID"
        )
    return context.run(_run_action(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = context.command_parser("sessions", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "action",
        nargs="?",
        choices=_ACTIONS,
        default="list",
        metavar="ACTION",
        help="see above (default: list)",
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="id of a session, or its first characters")
    parser.add_argument(
        "--json",
        action="store_true",
        help="list, show, log, worktree, diff, foreign: print one JSON object per line",
    )
    parser.add_argument("--yes", action="store_true", help="delete, end: do not ask for confirmation")
    parser.add_argument("--keep-files", action="store_true", help="rewind: do not restore files")
    parser.add_argument("--title", metavar="T", help="fork, handoff: title of the new session")
    parser.add_argument(
        "--format",
        choices=["jsonl", "markdown"],
        default="jsonl",
        help="export: output format (default: %(default)s)",
    )
    parser.add_argument("-n", "--limit", type=int, metavar="N", help="list: at most N sessions")
    parser.add_argument("--agent", metavar="A", help="list: only sessions of this agent")
    parser.add_argument(
        "--state",
        choices=[*map(str, SessionStatus)],
        metavar="S",
        help=f"list: only sessions in this state: {', '.join(SessionStatus)}",
    )
    parser.add_argument("--machine", metavar="ID", help="list: only sessions on this machine")
    parser.add_argument(
        "--text", metavar="T", help="list: only sessions whose title or last message contains this"
    )
    worktree_actions.add_options(parser)
    return parser


async def _run_action(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        if arguments.action == "list":
            await _print_list(client, arguments)
        elif arguments.action in foreign_sessions.ACTIONS:
            await foreign_sessions.run_action(client, arguments)
        elif arguments.action in _ACTIONS_WITH_VALUE:
            await _change_with_value(client, arguments)
        elif arguments.action in worktree_actions.ACTIONS:
            takes_value = arguments.action in worktree_actions.WITH_VALUE
            for given in arguments.ids[:1] if takes_value else arguments.ids:
                session = await context.find_session(client, given)
                await worktree_actions.run_action(client, session, arguments)
        else:
            for given in arguments.ids:
                session = await context.find_session(client, given)
                await _show_or_change(client, session, arguments)
    return SUCCESS


async def _print_list(client: AsyncClient, arguments: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = []
    async for session in client.sessions(
        machine_id=arguments.machine, agent=arguments.agent, state=arguments.state, text=arguments.text
    ):
        if arguments.limit is not None and len(rows) >= arguments.limit:
            break
        if arguments.json:
            print(printable_json(session))
        rows.append(_row(session))
    if arguments.json:
        return
    if rows:
        header = ("ID", "STATE", "AGENT", "USED", "DIRECTORY", "TITLE")
        print(table([header, *rows], get_terminal_size().columns))
    else:
        print("no sessions; `farsteer exec` creates one", file=sys.stderr)
    await foreign_sessions.print_hint(client)


def _row(session: SessionView) -> tuple[str, ...]:
    approvals = f" ({session.pending_requests_count}?)" if session.pending_requests_count else ""
    return (
        session.id[:8],
        f"{session.status.value}{approvals}",
        session.agent,
        ago(session.updated_at),
        one_line(session.directory, 40),
        session.title or "",
    )


async def _change_with_value(client: AsyncClient, arguments: argparse.Namespace) -> None:
    given, *values = arguments.ids
    if arguments.action == "rename" and not values:
        raise BadRequest("rename needs an ID and a title: `farsteer sessions rename ID TITLE`")
    if arguments.action == "handoff":
        if not values:
            raise BadRequest("handoff needs an ID and an agent: `farsteer sessions handoff ID AGENT`")
        session = await context.find_session(client, given)
        text = " ".join(values[1:]) or None
        print((await client.handoff(session.id, values[0], text=text, title=arguments.title)).id)
        return
    if arguments.action != "rename" and (len(values) > 1 or not all(value.isdecimal() for value in values)):
        raise BadRequest(
            f"{arguments.action} takes an ID and the number of a message: `farsteer sessions log ID` lists them"
        )
    if arguments.action == "rewind" and not values:
        raise BadRequest("rewind needs the number of a message: `farsteer sessions log ID` lists them")
    session = await context.find_session(client, given)
    match arguments.action:
        case "rename":
            await client.rename(session.id, " ".join(values))
        case "fork":
            seq = int(values[0]) if values else None
            print((await client.fork(session.id, seq=seq, title=arguments.title)).id)
        case _:
            await _rewind(client, session, int(values[0]), restore_files=not arguments.keep_files)


async def _rewind(client: AsyncClient, session: SessionView, seq: int, *, restore_files: bool) -> None:
    """Rewind, print the removed message to stdout, so that it can be edited and sent again, and a summary to stderr."""
    rewound = await client.rewind(session.id, seq, restore_files=restore_files)
    print(clean(rewound.text))
    for line in _rewind_summary(rewound):
        print(line, file=sys.stderr)


def _rewind_summary(rewound: SessionRewound) -> list[str]:
    files = rewound.files
    reason = f": {clean_line(files.reason)}" if files.reason else ""
    lines = [f"files: {files.status.value}{reason}"] if files.status is not FileRestore.SKIPPED else []
    lines += [f"  restored {one_line(path, 200)}" for path in files.restored]
    lines += [f"  not restored {one_line(path, 200)}" for path in files.skipped]
    if rewound.cancelled:
        lines.append(f"{len(rewound.cancelled)} waiting messages were cancelled")
    return lines


async def _show_or_change(client: AsyncClient, session: SessionView, arguments: argparse.Namespace) -> None:
    match arguments.action:
        case "show":
            print(printable_json(session) if arguments.json else _describe(session))
        case "log":
            async for entry in client.messages(session.id):
                if isinstance(entry.content, UserMessage):
                    text = _log_line(entry.seq, entry.content)
                    print(printable_json(entry) if arguments.json else text)
        case "export":
            async for chunk in client.export(session.id, form=arguments.format):
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        case "stop":
            await client.stop(session.id)
        case "resume":
            await client.resume(session.id)
        case _:
            confirm_delete(session.id, session.title, confirmed=arguments.yes)
            await client.delete(session.id)


def _log_line(seq: int, message: UserMessage) -> str:
    return f"{seq:>6}  {one_line(message.text, max(get_terminal_size().columns - 8, 20))}"


def _describe(session: SessionView) -> str:
    usage = session.usage
    facts = {
        "id": session.id,
        "title": session.title or "",
        "state": session.status.value,
        "error": session.error or "",
        "agent": session.agent,
        "model": " ".join(str(part) for part in (session.model, session.model_reasoning_effort) if part),
        "mode": session.permission_mode.value,
        "directory": session.directory,
        "branch": session.worktree.branch if session.worktree else "",
        "handed over from": session.handed_off_from.session_id if session.handed_off_from else "",
        "handed over to": ", ".join(session.handed_off_to),
        "machine": session.machine_id,
        "created": f"{ago(session.created_at)} ago",
        "used": f"{ago(session.updated_at)} ago",
        "messages": str(session.seq),
        "queued": str(len(session.queue) or ""),
        "waits for": "; ".join(approval.title for approval in session.approvals),
        "tokens": f"{usage.input_tokens} in, {usage.output_tokens} out",
        "cost": f"${usage.cost_usd:.4f}" if usage.cost_usd else "",
        "last": session.last_message or "",
    }
    return facts_table(facts, get_terminal_size().columns)
