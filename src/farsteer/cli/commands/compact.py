"""`farsteer hub compact`: applies the retention rules and gives free space back, whether or not the hub runs."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from farsteer.cli import context
from farsteer.cli.exit_codes import FAILURE, SUCCESS
from farsteer.cli.terminal.text import ago
from farsteer.client.config import running_hub
from farsteer.client.settings import find_text
from farsteer.core.errors import NotFound
from farsteer.core.retention import RemovalReason, StorageReport

DESCRIPTION = """\
Remove the sessions that the retention rules in hub.toml say, and give the space
that the hub does not use back to the disk. Works on the hub that runs on the home
directory or that --hub names; if none runs, on the database of the home directory.
Without rules no session is removed.
"""

EXAMPLES = """\
  farsteer hub compact --dry-run
  farsteer hub compact

hub.toml, for the namespace `default`; "*" names all that have no rule of their own:

  [retention.default]
  days = 90               # remove sessions that nobody has used for 90 days
  bytes = 20_000_000_000  # and the oldest while their logs have more than this
"""

_POLL_SECONDS = 0.3
_WORDS = {RemovalReason.AGE: "by age", RemovalReason.SIZE: "by size"}


def compact_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("hub compact", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed, change nothing")
    arguments = parser.parse_args(argv)
    home = context.home_directory(arguments)
    if find_text("hub", arguments.hub) or running_hub(home):
        return context.run(_compact_running(arguments))
    return context.run(_compact_stopped(home, dry_run=arguments.dry_run))


async def _compact_running(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        before = await client.storage()
        report = await client.compact(dry_run=arguments.dry_run)
        _print_removals(report, dry_run=arguments.dry_run)
        if arguments.dry_run:
            return _print_dry_run(before)
        while report.compacting:
            await asyncio.sleep(_POLL_SECONDS)
            report = await client.storage()
    return _print_sizes(before, report)


async def _compact_stopped(home: Path, *, dry_run: bool) -> int:
    from farsteer.cli.daemon.in_process import OWNER
    from farsteer.hub import Hub
    from farsteer.hub.hub import DATABASE
    from farsteer.storage.free_space import rewrite, size_of
    from farsteer.storage.home import HomeLock

    path = home / DATABASE
    if not path.exists():
        raise NotFound(
            f"{path} does not exist: no hub has run on this home directory; choose one with --home"
        )
    size = size_of(path)
    if not dry_run:
        lock = HomeLock(home, "hub")
        try:
            await asyncio.to_thread(rewrite, path)
        finally:
            lock.release()
    hub = await Hub.open(home, apply_retention=False)
    try:
        before = await hub.storage.report(OWNER)
        report = await hub.storage.compact(OWNER, dry_run=dry_run)
        _print_removals(report, dry_run=dry_run)
        if dry_run:
            return _print_dry_run(before)
        while report.compacting:
            await asyncio.sleep(_POLL_SECONDS)
            report = await hub.storage.report(OWNER)
    finally:
        await hub.close()
    return _print_sizes(before, report, size)


def _print_removals(report: StorageReport, *, dry_run: bool) -> None:
    for one in report.removals:
        verb = "would be removed" if dry_run else "removed"
        print(
            f"{one.session_id} in {one.namespace}: {verb} {_WORDS[one.reason]},"
            f" last used {ago(one.updated_at)}, {_megabytes(one.bytes)}"
        )
    if not report.removals:
        print("no session is removed by the retention rules")


def _print_dry_run(report: StorageReport) -> int:
    print(f"the database has {_megabytes(report.bytes)}, of which {_megabytes(report.free_bytes)} are free")
    return SUCCESS


def _print_sizes(before: StorageReport, after: StorageReport, size: int | None = None) -> int:
    print(f"before {_megabytes(size or before.bytes)}, after {_megabytes(after.bytes)}")
    if after.needs_rewrite:
        print("the database was made by an early version: stop the hub and run this again to let it shrink")
        return FAILURE
    return SUCCESS


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
