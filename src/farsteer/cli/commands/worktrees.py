"""`farsteer worktrees`: the git worktrees on the machines of a hub, and which repositories may set theirs up."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.text import one_line, table
from farsteer.client.config import absolute_path
from farsteer.core.errors import BadRequest, MachineOffline
from farsteer.core.text import clean_line, printable_json

if TYPE_CHECKING:
    from farsteer.client import AsyncClient, WorktreeView

DESCRIPTION = """\
List the git worktrees that were made for sessions, and clean up what is left over
from sessions that were deleted. `farsteer sessions` shows, merges and discards the
worktree of a session.

actions:
  list           list the worktrees (the default)
  clean          remove those whose session was deleted, unless something would be
                 lost: changes that are in no commit, commits in no other branch
  clean PATH     only this one; --force removes also what would be lost
  allow [DIR]    let the repository at DIR on this machine run the commands of its
                 .farsteer/worktree.toml in new worktrees. A changed file asks again
  disallow [DIR] take that back
"""

EXAMPLES = """\
  farsteer new . --worktree --agent claude
  farsteer worktrees
  farsteer worktrees clean
  farsteer worktrees allow ~/project
"""


def worktrees_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("worktrees", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "action", nargs="?", choices=["list", "clean", "allow", "disallow"], default="list", metavar="ACTION",
        help="see above (default: list)",
    )  # fmt: skip
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", help="clean: a worktree; allow, disallow: a repository"
    )
    context.add_machine_option(parser)
    parser.add_argument("--force", action="store_true", help="clean: also what would be lost; needs a PATH")
    parser.add_argument("--json", action="store_true", help="list: print one JSON object per line")
    arguments = parser.parse_intermixed_args(argv)
    if arguments.action == "list" and arguments.directory:
        parser.error("list takes no DIR")
    if arguments.force and not arguments.directory:
        parser.error("--force needs the PATH of one worktree")
    if arguments.action in ("allow", "disallow"):
        return context.run(_change_allowed(arguments))
    return context.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    from farsteer.client.machines import choose_machine

    async with context.hub_client(arguments) as client:
        machines = await client.machines()
        wanted = [machine for machine in machines if machine.active]
        if arguments.machine or arguments.action == "clean":
            wanted = [choose_machine(machines, arguments.machine)]
        if not wanted:
            raise MachineOffline("no machine is connected")
        if arguments.action == "clean":
            return await _clean(client, wanted[0].id, arguments)
        found = [view for machine in wanted for view in await client.worktrees(machine.id)]
    if arguments.json:
        for view in found:
            print(printable_json(view))
    elif found:
        header = ("SESSION", "BRANCH", "BASE", "COMMITS", "CHANGES", "PATH")
        print(table([header, *map(_row, found)], get_terminal_size().columns))
    else:
        print("no worktrees; `farsteer new --worktree` makes one", file=sys.stderr)
    return SUCCESS


def _row(view: WorktreeView) -> tuple[str, ...]:
    return (
        "(deleted)" if view.session_id is None else view.session_id[:8],
        one_line(view.branch, 40),
        one_line(view.base_branch or (view.base_commit or "")[:12], 30),
        f"+{view.ahead} -{view.behind}",
        str(view.changes_count),
        one_line(view.path, 200) + (f" ({one_line(view.problem, 100)})" if view.problem else ""),
    )


async def _clean(client: AsyncClient, machine_id: str, arguments: argparse.Namespace) -> int:
    paths = None if arguments.directory is None else [arguments.directory]
    cleaned = await client.clean_worktrees(machine_id, paths=paths, force=arguments.force)
    for path in cleaned.removed:
        print(f"removed {clean_line(path)}")
    for kept in cleaned.kept:
        print(f"kept {clean_line(kept.path)}: {clean_line(kept.reason)}", file=sys.stderr)
        for name in (*kept.changes, *kept.unmerged)[:20]:
            print(f"  {one_line(name, 200)}", file=sys.stderr)
    if not cleaned.removed and not cleaned.kept:
        print("nothing is left over", file=sys.stderr)
    return SUCCESS


async def _change_allowed(arguments: argparse.Namespace) -> int:
    import shlex

    from farsteer.runner.git import GitRepository
    from farsteer.runner.worktree_setup import SETUP_FILE, allow, disallow, parse_setup
    from farsteer.runner.worktrees import common_directory
    from farsteer.storage.home import prepare_home

    home = prepare_home(context.home_directory(arguments))
    repository = await GitRepository.find(Path(absolute_path(arguments.directory or ".")))
    common = await common_directory(repository)
    if arguments.action == "disallow":
        done = disallow(home, common)
        print("not allowed any more" if done else "nothing was allowed", file=sys.stderr)
        return SUCCESS
    path = repository.top / SETUP_FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}") from None
    found = parse_setup(content, str(path))
    allow(home, common, found.digest)
    for command in found.setup.setup:
        print(clean_line(shlex.join(command)))
    print(f"new worktrees of {repository.top} run this from now on", file=sys.stderr)
    return SUCCESS
