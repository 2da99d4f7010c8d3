"""The actions of `farsteer sessions` on the worktree of a session."""

from __future__ import annotations

import argparse
import shlex
import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from farsteer.cli.terminal.text import facts_table, one_line, table
from farsteer.core.errors import BadRequest, Conflict
from farsteer.core.text import clean, clean_line, printable_json

if TYPE_CHECKING:
    from farsteer.client import AsyncClient, BranchReady, WorktreeDiff, WorktreeView
    from farsteer.core.api import SessionView

HELP = """\
  worktree ID ...       show the worktree of a session: its branch, and what is in no
                        commit or in no other branch
  diff ID [FILE]        print what the worktree changes against its base
  merge ID              merge its branch into the branch that it was made from
  rebase ID             rebase its branch onto the branch that it was made from
  branch ID [NAME]      say how to push its branch for a pull request; with a name,
                        rename the branch first. Nothing is pushed
  discard ID ...        stop the agent, remove the worktree and its branch; --force
                        removes also what would be lost
"""
ACTIONS = ("worktree", "diff", "merge", "rebase", "branch", "discard")
WITH_VALUE = {"diff", "merge", "rebase", "branch"}
"""Actions that take one ID and a value, instead of several IDs."""
_SHOWN_FILES = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stat", action="store_true", help="diff: only the files and their counts")
    parser.add_argument("--into", metavar="B", help="merge: the branch to merge into")
    parser.add_argument("--onto", metavar="B", help="rebase: the branch, tag or commit to rebase onto")
    parser.add_argument(
        "--force",
        action="store_true",
        help="merge: without what is in no commit; discard: also what would be lost",
    )


async def run_action(client: AsyncClient, session: SessionView, arguments: argparse.Namespace) -> None:
    values: list[str] = arguments.ids[1:] if arguments.action in WITH_VALUE else []
    if len(values) > (1 if arguments.action in ("diff", "branch") else 0):
        raise BadRequest(f"{arguments.action} takes one ID: `farsteer sessions --help`")
    value = values[0] if values else None
    try:
        match arguments.action:
            case "worktree":
                view = await client.worktree(session.id)
                print(printable_json(view) if arguments.json else describe(view))
            case "diff":
                await _print_diff(client, session.id, value, arguments)
            case "merge":
                moved = await client.merge(session.id, into=arguments.into, force=arguments.force)
                print(
                    f"{_count(moved.commits, 'commit')} merged into {moved.branch}, now at {moved.commit[:12]}"
                )
            case "rebase":
                moved = await client.rebase(session.id, onto=arguments.onto)
                count = _count(moved.commits, "commit")
                print(f"{moved.branch} is now at {moved.commit[:12]}, {count} above its base")
            case "branch":
                _print_branch(await client.name_branch(session.id, value))
            case _:
                gone = await client.discard(session.id, force=arguments.force)
                print(
                    f"removed {clean_line(gone.path)} and branch {clean_line(gone.branch)}", file=sys.stderr
                )
    except Conflict as error:
        _print_details(error.details)
        raise


def describe(view: WorktreeView) -> str:
    """Return a worktree as facts, one a line."""
    base = view.base_branch or (view.base_commit or "")[:12]
    facts = {
        "path": view.path + ("" if view.exists else " (gone)"),
        "branch": view.branch,
        "base": base,
        "commits": f"{view.ahead} ahead of {base}, {view.behind} behind",
        "changes": _list(view.changes, view.changes_count),
        "unmerged": _list(view.unmerged, view.unmerged_count),
        "problem": view.problem or "",
    }
    return facts_table(facts, get_terminal_size().columns)


def _list(names: list[str], count: int) -> str:
    more = f" and {count - 5} more" if count > 5 else ""
    return ", ".join(one_line(name, 60) for name in names[:5]) + more


async def _print_diff(
    client: AsyncClient, session_id: str, path: str | None, arguments: argparse.Namespace
) -> None:
    offset: int | None = 0
    while offset is not None:
        page = await client.diff(session_id, path=path, offset=offset)
        if arguments.json:
            print(printable_json(page))
        elif arguments.stat:
            _print_stat(page, is_first=offset == 0)
        elif page.truncated and path is None:
            for file in page.files:
                _print_patch(await client.diff(session_id, path=file.path), file.path)
        else:
            _print_patch(page, path or "")
        offset = page.next_offset


def _print_patch(page: WorktreeDiff, path: str) -> None:
    if page.patch:
        # For another program it stays as it is, for a terminal it must not control it.
        print(clean(page.patch) if sys.stdout.isatty() else page.patch)
    if page.truncated:
        print(f"{clean_line(path)}: its changes are longer than this", file=sys.stderr)


def _print_stat(page: WorktreeDiff, *, is_first: bool) -> None:
    if is_first:
        print(
            f"{_count(page.files_count, 'file')} against {clean_line(page.base)}: +{page.additions} -{page.deletions}"
        )
    rows = [
        (
            file.status, "" if file.additions is None else f"+{file.additions} -{file.deletions}",
            one_line(file.path, 200),
        )
        for file in page.files
    ]  # fmt: skip
    if rows:
        print(table(rows, get_terminal_size().columns))


def _print_branch(ready: BranchReady) -> None:
    if ready.changes_count:
        print(
            f"{ready.changes_count} files have changes that are in no commit and would not be pushed: "
            f"{_list(ready.changes, ready.changes_count)}",
            file=sys.stderr,
        )
    if ready.remote is None:
        print("the repository has no remote: put its name in the place of REMOTE", file=sys.stderr)
    print(clean(shlex.join(ready.push)))
    if ready.compare is not None:
        print(clean_line(ready.compare, 2000))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print_details(details: dict[str, Any]) -> None:
    """Print what an error lists: files that conflict, or what would be lost."""
    for kind in ("files", "commits"):
        names: list[str] = details.get(kind) or []
        for name in names[:_SHOWN_FILES]:
            print(f"  {one_line(name, 200)}", file=sys.stderr)
        if len(names) > _SHOWN_FILES:
            print(f"  … and {len(names) - _SHOWN_FILES} more {kind}", file=sys.stderr)
