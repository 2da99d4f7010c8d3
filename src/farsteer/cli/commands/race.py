"""`farsteer race`: the same prompt for several agents, each in a git worktree of its own, and what came of it."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.exit_codes import FAILURE, SUCCESS
from farsteer.cli.terminal.text import one_line, table
from farsteer.client.config import absolute_path
from farsteer.core.errors import BadRequest, Conflict, ErrorCode, FarsteerError
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode
from farsteer.core.text import clean_line, printable_json
from farsteer.core.wire import WireStruct

if TYPE_CHECKING:
    from farsteer.client import AsyncClient, AsyncSession
    from farsteer.core.api import SessionView

DESCRIPTION = """\
Give the same prompt to several agents, each in a git worktree of its own, at the
same time. When all have finished, their changes are compared: files and lines, the
result of a command that tests them, tokens, cost and time. Nothing is merged.

  race --agents A,B PROMPT   race them; --test must come last: all after it is the
                             command, which runs in each worktree on this machine
  race pick ID               merge the branch of that session, as `farsteer
                             sessions merge` does

Approvals are for you to answer meanwhile: `farsteer approvals`.
"""

EXAMPLES = """\
  farsteer race --agents claude,codex,droid "fix the login"
  farsteer race --agents claude,codex --mode acceptEdits "fix it" --test make test
  farsteer race pick 3f2a
  farsteer race pick 3f2a --discard-others
"""

_SOURCE = "race:"
"""The source of the sessions of a race begins with this and ends with the race's id."""
_TEST_SECONDS = 600.0
_MAX_AGENTS = 10


class Runner(WireStruct, omit_defaults=False):
    """One agent of a race, and what came of it."""

    agent: str
    session: str | None = None
    """None if it could not be created."""
    branch: str | None = None
    result: str = "failed"
    """How its turn ended, or the code of the error."""
    message: str = ""
    files: int = 0
    additions: int = 0
    deletions: int = 0
    test: int | None = None
    """The exit code of the test. None if there was none, -1 if it did not finish."""
    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Race:
    id: str
    prompt: str
    directory: str
    machine: str
    base: str | None
    mode: str | None
    test: tuple[str, ...]


def race_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("race", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("words", nargs="+", metavar="PROMPT", help="the prompt; or: pick ID")
    parser.add_argument("--agents", metavar="A,B", help="the agents, separated by commas")
    parser.add_argument("--dir", metavar="DIR", help="the repository (default: this directory)")
    context.add_machine_option(parser)
    parser.add_argument("--base", metavar="B", help="branch, tag or commit to begin with")
    parser.add_argument(
        "--mode", choices=[*map(str, PermissionMode)], metavar="MODE", help="what the agents may do without asking"
    )  # fmt: skip
    parser.add_argument(
        "--discard-others",
        action="store_true",
        help="pick: remove the other worktrees of the race, with everything in them",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per agent")
    parser.add_argument(
        "--test", nargs=argparse.REMAINDER, default=[], metavar="CMD", help="a command that tests the changes"
    )
    arguments = parser.parse_intermixed_args(argv) if "--test" not in argv else parser.parse_args(argv)
    if arguments.agents is None:
        if len(arguments.words) != 2 or arguments.words[0] != "pick":
            parser.error("name the agents with --agents, or pick the ID of a session")
        return context.run(_pick(arguments))
    return context.run(_race(arguments))


async def _race(arguments: argparse.Namespace) -> int:
    from farsteer.client.machines import choose_machine

    agents = [name.strip() for name in arguments.agents.split(",") if name.strip()]
    if not 1 <= len(agents) <= _MAX_AGENTS:
        raise BadRequest(f"--agents takes 1 to {_MAX_AGENTS} names, separated by commas")
    async with context.hub_client(arguments) as client:
        machine = choose_machine(await client.machines(), arguments.machine)
        if arguments.test and machine.host != socket.gethostname():
            raise BadRequest("--test runs on this machine, and the agents would run on another one")
        race = _Race(
            id=new_id()[:8], prompt=" ".join(arguments.words), directory=absolute_path(arguments.dir or "."),
            machine=machine.id, base=arguments.base, mode=arguments.mode, test=tuple(arguments.test),
        )  # fmt: skip
        runners = await asyncio.gather(*(_run(client, race, agent) for agent in agents))
    if arguments.json:
        for runner in runners:
            print(printable_json(runner))
    else:
        header = ("AGENT", "SESSION", "RESULT", "FILES", "LINES", "TEST", "TOKENS", "COST", "TIME")
        print(table([header, *map(_row, runners)], get_terminal_size().columns))
        print(
            "`farsteer sessions diff ID` shows the changes, `farsteer race pick ID` merges them",
            file=sys.stderr,
        )
    return SUCCESS if any(runner.result == "end_turn" for runner in runners) else FAILURE


async def _run(client: AsyncClient, race: _Race, agent: str) -> Runner:
    """Run one agent to its end. An error is its result, and stops no other."""
    started = time.monotonic()
    try:
        session = await client.start(
            race.directory, agent=agent, machine=race.machine, worktree=f"race-{race.id}-{agent}", base=race.base,
            permission_mode=race.mode, title=f"Race: {one_line(race.prompt, 80)}", source=f"{_SOURCE}{race.id}",
        )  # fmt: skip
    except FarsteerError as error:
        _say(agent, f"could not begin: {error.message}")
        return Runner(agent=agent, result=error.code.value, message=error.message)
    _say(agent, f"began as session {session.id[:8]}")
    try:
        result, message = await _follow(session, race.prompt, agent)
        _say(agent, f"ended: {result}")
        seconds = time.monotonic() - started
        view = await session.view()
        diff = await session.diff(limit=1)
        code = await _test(race, view.directory) if race.test else None
        if code is not None:
            _say(agent, "the test passed" if code == 0 else f"the test failed ({code})")
        return Runner(
            agent=agent, session=session.id, branch=view.worktree.branch if view.worktree else None, result=result,
            message=message, files=diff.files_count, additions=diff.additions, deletions=diff.deletions, test=code,
            tokens=view.usage.input_tokens + view.usage.output_tokens, cost_usd=view.usage.cost_usd,
            seconds=round(seconds, 1),
        )  # fmt: skip
    except FarsteerError as error:
        _say(agent, error.message)
        return Runner(agent=agent, session=session.id, result=error.code.value, message=error.message)


async def _follow(session: AsyncSession, prompt: str, agent: str) -> tuple[str, str]:
    async with session.turn(prompt) as turn:
        async for update in turn:
            if update.approval is not None:
                _say(agent, f"asks: {update.approval.title} (farsteer approvals)")
        ended = await turn.finish()
    return ended.reason.value, ended.error or ""


async def _test(race: _Race, directory: str) -> int:
    """Run the test in a worktree and return its exit code, -1 if it cannot be run or does not finish."""
    try:
        process = await asyncio.create_subprocess_exec(
            *race.test, cwd=directory, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise BadRequest(f"{race.test[0]} cannot be run: {error.strerror}") from None
    try:
        return await asyncio.wait_for(process.wait(), _TEST_SECONDS)
    except TimeoutError:
        return -1
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _say(agent: str, what: str) -> None:
    print(f"{clean_line(agent, 30)}: {clean_line(what, 200)}", file=sys.stderr, flush=True)


def _row(runner: Runner) -> tuple[str, ...]:
    return (
        one_line(runner.agent, 20),
        (runner.session or "")[:8],
        runner.result,
        str(runner.files),
        f"+{runner.additions} -{runner.deletions}",
        "" if runner.test is None else "passed" if runner.test == 0 else f"failed ({runner.test})",
        str(runner.tokens or ""),
        f"${runner.cost_usd:.4f}" if runner.cost_usd else "",
        f"{runner.seconds:.0f} s",
    )


async def _pick(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        chosen = await context.find_session(client, arguments.words[1])
        if not chosen.source.startswith(_SOURCE):
            raise BadRequest(
                f"session {chosen.id} was in no race; `farsteer sessions merge` merges any branch"
            )
        await _merge(client, chosen)
        if arguments.discard_others:
            # All are found before the first is changed, which moves it in the list.
            others = [one async for one in client.sessions() if one.source == chosen.source]
            for other in others:
                if other.id != chosen.id:
                    gone = await client.discard(other.id, force=True)
                    print(f"removed {clean_line(gone.path)} of {clean_line(other.agent)}", file=sys.stderr)
    return SUCCESS


async def _merge(client: AsyncClient, chosen: SessionView) -> None:
    try:
        moved = await client.merge(chosen.id)
    except Conflict as error:
        if error.code is not ErrorCode.WORKTREE_CHANGES or "directory" in error.details:
            raise
        place = Path(chosen.directory)
        raise Conflict(
            f"the changes of {clean_line(chosen.agent)} are in no commit yet: commit them with "
            f"`git -C {place} add -A` and `git -C {place} commit`, then pick again",
            code=error.code,
        ) from error
    print(f"{chosen.agent} merged into {moved.branch}, now at {moved.commit[:12]}")
