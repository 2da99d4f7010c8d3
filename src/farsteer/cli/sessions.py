"""`farsteer sessions`: the sessions of a hub."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.main import DONE
from farsteer.cli.text import ago, clean, facts_table, one_line, table
from farsteer.core.api import SessionRewound, SessionView
from farsteer.core.errors import BadRequest
from farsteer.core.events import FileRestore, SessionStatus, UserMessage
from farsteer.core.wire import encode

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

ABOUT = """\
The sessions of a hub. An ID may be shortened to any beginning that only one
session has.

  list                  all sessions, the latest first (also without an action)
  show ID               everything about one
  log ID                what you said in it, with the number of each message
  rename ID TITLE       give it another title
  stop ID ...           end the agent's process, keep the session
  resume ID ...         start the agent's process again; a message does that too
  rewind ID NUMBER      go on from before that message; files go back too, where
                        the agent can do that
  fork ID [NUMBER]      a new session that begins as this one did, up to before
                        that message
  export ID             write the session to stdout
  delete ID ...         end it and forget its history
"""

EXAMPLES = """\
  farsteer sessions
  farsteer sessions list --agent demo --state working
  farsteer sessions show 3f2a
  farsteer sessions rewind 3f2a 17
  farsteer sessions export 3f2a --format markdown > talk.md
  farsteer sessions --json | jq -r .id
"""

_ACTIONS = ["list", "show", "log", "rename", "stop", "resume", "rewind", "fork", "export", "delete"]
_NAMED = {"rename", "rewind", "fork"}
"""What takes one ID and something else."""


def main(argv: Sequence[str]) -> int:
    parser = context.command("sessions", ABOUT, EXAMPLES)
    context.add_hub(parser)
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", metavar="ACTION")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--yes", action="store_true", help="delete without asking")
    parser.add_argument("--keep-files", action="store_true", help="rewind the conversation only")
    parser.add_argument("--title", metavar="T", help="the title of a fork")
    parser.add_argument("--format", choices=["jsonl", "markdown"], default="jsonl", help="of an export")
    parser.add_argument("-n", "--limit", type=int, metavar="N", help="list at most N sessions")
    parser.add_argument("--agent", metavar="A", help="list only sessions of this agent")
    parser.add_argument(
        "--state",
        choices=[*SessionStatus],
        metavar="S",
        help=f"list only sessions in this state: {', '.join(SessionStatus)}",
    )
    parser.add_argument("--machine", metavar="ID", help="list only sessions on this machine")
    parser.add_argument("--text", metavar="T", help="list only sessions whose title or last message has this")
    arguments = parser.parse_intermixed_args(argv)
    if bool(arguments.ids) == (arguments.action == "list"):
        parser.error("list takes no ID" if arguments.ids else f"{arguments.action} needs an ID")
    return context.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with context.client(arguments) as client:
        if arguments.action == "list":
            await _list(client, arguments)
        elif arguments.action in _NAMED:
            await _act_on_one(client, arguments)
        else:
            for given in arguments.ids:
                await _act(client, await context.find_session(client, given), arguments)
    return DONE


async def _list(client: AsyncClient, arguments: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = []
    async for session in client.sessions(
        machine_id=arguments.machine, agent=arguments.agent, state=arguments.state, text=arguments.text
    ):
        if arguments.limit is not None and len(rows) >= arguments.limit:
            break
        if arguments.json:
            print(encode(session).decode())
        rows.append(_row(session))
    if arguments.json:
        return
    if rows:
        header = ("ID", "STATE", "AGENT", "USED", "DIRECTORY", "TITLE")
        print(table([header, *rows], get_terminal_size().columns))
    else:
        print("no sessions; `farsteer exec` starts one", file=sys.stderr)


def _row(session: SessionView) -> tuple[str, ...]:
    waiting = f" ({session.pending_requests_count}?)" if session.pending_requests_count else ""
    return (
        session.id[:8],
        f"{session.status.value}{waiting}",
        clean(session.agent),
        ago(session.updated_at),
        one_line(session.directory, 40),
        clean(session.title or ""),
    )


async def _act_on_one(client: AsyncClient, arguments: argparse.Namespace) -> None:
    given, *rest = arguments.ids
    if arguments.action == "rename" and not rest:
        raise BadRequest("rename needs an ID and a title: `farsteer sessions rename ID TITLE`")
    if arguments.action != "rename" and (len(rest) > 1 or not all(number.isdecimal() for number in rest)):
        raise BadRequest(
            f"{arguments.action} takes an ID and a message's number: see `farsteer sessions log ID`"
        )
    if arguments.action == "rewind" and not rest:
        raise BadRequest("rewind needs the number of a message: `farsteer sessions log ID` shows them")
    session = await context.find_session(client, given)
    match arguments.action:
        case "rename":
            await client.rename(session.id, " ".join(rest))
        case "fork":
            seq = int(rest[0]) if rest else None
            print((await client.fork(session.id, seq=seq, title=arguments.title)).id)
        case _:
            await _rewind(client, session, int(rest[0]), files=not arguments.keep_files)


async def _rewind(client: AsyncClient, session: SessionView, seq: int, *, files: bool) -> None:
    """What was removed goes to stdout, to be written anew; what happened to stderr."""
    done = await client.rewind(session.id, seq, restore_files=files)
    print(done.text)
    for line in _rewound(done):
        print(line, file=sys.stderr)


def _rewound(done: SessionRewound) -> list[str]:
    restored = done.files
    why = f": {clean(restored.reason)}" if restored.reason else ""
    lines = [f"files: {restored.status.value}{why}"] if restored.status is not FileRestore.SKIPPED else []
    lines += [f"  restored {one_line(path, 200)}" for path in restored.restored]
    lines += [f"  left as it is {one_line(path, 200)}" for path in restored.skipped]
    if done.cancelled:
        lines.append(f"{len(done.cancelled)} waiting messages were cancelled")
    return lines


async def _act(client: AsyncClient, session: SessionView, arguments: argparse.Namespace) -> None:
    match arguments.action:
        case "show":
            print(encode(session).decode() if arguments.json else _shown(session))
        case "log":
            async for entry in client.messages(session.id):
                if isinstance(entry.content, UserMessage):
                    print(encode(entry).decode() if arguments.json else _said(entry.seq, entry.content))
        case "export":
            async for piece in client.export(session.id, form=arguments.format):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        case "stop":
            await client.stop(session.id)
        case "resume":
            await client.resume(session.id)
        case _:
            _confirm(session, yes=arguments.yes)
            await client.delete(session.id)


def _said(seq: int, message: UserMessage) -> str:
    return f"{seq:>6}  {one_line(message.text, max(get_terminal_size().columns - 8, 20))}"


def _confirm(session: SessionView, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadRequest("deleting forgets a session's history for good: say --yes")
    print(
        f"delete {session.id[:8]} {one_line(session.title or '', 60)!r} and its history? [y/N] ",
        end="",
        flush=True,
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadRequest("nothing was deleted")


def _shown(session: SessionView) -> str:
    used = session.usage
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
        "machine": session.machine_id,
        "created": f"{ago(session.created_at)} ago",
        "used": f"{ago(session.updated_at)} ago",
        "messages": str(session.seq),
        "queued": str(len(session.queue) or ""),
        "waits for": "; ".join(approval.title for approval in session.approvals),
        "tokens": f"{used.input_tokens} in, {used.output_tokens} out",
        "cost": f"${used.cost_usd:.4f}" if used.cost_usd else "",
        "last": session.last_message or "",
    }
    return facts_table(facts, get_terminal_size().columns)
