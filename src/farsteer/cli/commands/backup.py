"""`farsteer backup` and `farsteer restore`: one file with everything of a home directory."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from farsteer import __version__
from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.core.text import clean_line, printable_json

BACKUP_DESCRIPTION = """\
Write everything of the home directory to one file: the databases of hub and
runner, secrets, settings, and the files that the agents' adapters keep there.
Hub and runner may run meanwhile. The file contains access tokens and keys: keep
it as safe as the home directory itself.
"""

BACKUP_EXAMPLES = """\
  farsteer backup farsteer.tar
  farsteer backup /mnt/backups/$(date +%F).tar --home /srv/farsteer
"""

RESTORE_DESCRIPTION = """\
Put the content of a backup into the home directory. Everything is checked before
anything is replaced. Hub and runner must be stopped. A command that was
interrupted is finished by running it again.

Clients that connect again read what they show anew. A runner that was newer than
the backup keeps what it has; `farsteer sessions` shows sessions that only the
machine knows.
"""

RESTORE_EXAMPLES = """\
  farsteer restore farsteer.tar
  farsteer restore farsteer.tar --home /srv/farsteer --force
"""

_PROGRESS_SECONDS = 1.0

NOT_INCLUDED = (
    "not in it: the directories that sessions work in, and what agents keep outside of the home directory, such as"
    " their own conversations and logins"
)


class _BackupReport(Struct, rename="camel"):
    file: str
    size: int
    contents: list[str]
    left_out: list[str]


class _RestoreReport(Struct, rename="camel"):
    home: str
    contents: list[str]
    replaced: str | None
    finished: bool


def backup_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("backup", BACKUP_DESCRIPTION, BACKUP_EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="file to write")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument("--json", action="store_true", help="print what is in it as one JSON object")
    arguments = parser.parse_args(argv)
    from farsteer.hub.store.sqlite.epoch import mark_restored
    from farsteer.storage.backup import create_backup

    home = context.home_directory(arguments)
    made = create_backup(
        home,
        Path(arguments.file).expanduser(),
        version=__version__,
        prepare={"hub.db": mark_restored},
        force=arguments.force,
        progress=ProgressPrinter(),
    )
    names = [member.name for member in made.contents]
    if arguments.json:
        print(printable_json(_BackupReport(str(made.file), made.size, names, made.left_out)))
        return SUCCESS
    print(f"{made.file}: {_size(made.size)} of {home}")
    for member in made.contents:
        if not member.name.startswith("agents/"):
            print(f"  {member.name:<12} {_size(member.size)}")
    agents = [member.size for member in made.contents if member.name.startswith("agents/")]
    if agents:
        print(
            f"  {'agents/':<12} {_size(sum(agents))} in {len(agents)} {'file' if len(agents) == 1 else 'files'}"
        )
    if made.left_out:
        print(f"left out: {', '.join(clean_line(name, 100) for name in made.left_out[:20])}")
    print(NOT_INCLUDED)
    return SUCCESS


def restore_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("restore", RESTORE_DESCRIPTION, RESTORE_EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="file that `farsteer backup` wrote")
    parser.add_argument(
        "--force", action="store_true", help="restore into a home that is not empty; its files are kept aside"
    )
    parser.add_argument("--json", action="store_true", help="print what was restored as one JSON object")
    arguments = parser.parse_args(argv)
    from farsteer.hub.store.sqlite.schema import MIGRATIONS as HUB_MIGRATIONS
    from farsteer.runner.journal_schema import MIGRATIONS as RUNNER_MIGRATIONS
    from farsteer.storage.restore import restore_backup

    home = context.home_directory(arguments)
    done = restore_backup(
        home,
        Path(arguments.file).expanduser(),
        schemas={"hub.db": len(HUB_MIGRATIONS), "runner.db": len(RUNNER_MIGRATIONS)},
        force=arguments.force,
        progress=ProgressPrinter(),
    )
    names = [member.name for member in done.contents]
    replaced = None if done.replaced is None else str(done.replaced)
    if arguments.json:
        print(printable_json(_RestoreReport(str(home), names, replaced, done.finished)))
        return SUCCESS
    if done.finished:
        print(f"finished the restore of {home} that was interrupted; {arguments.file} was not read")
    else:
        print(f"restored {len(names)} files into {home}")
    if replaced is not None:
        print(f"the files of before are in {replaced}: remove it when you do not need them any more")
    print("clients that connect again read everything anew")
    if "runner.db" in names or (home / "runner.db").exists():
        print(
            "the runner has the identity of the one that was backed up: if that one still exists, also on another"
            " machine, stop it for good. If it was killed or lost, `farsteer machines release ID` lets this one in"
        )
    return SUCCESS


class ProgressPrinter:
    """Prints what is being done to stderr, at most once a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PROGRESS_SECONDS

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PROGRESS_SECONDS
        share = f" {100 * done // total}% of {_size(total)}" if total > 1 else ""
        print(f"{clean_line(what, 200)}{share}", file=sys.stderr, flush=True)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
