"""`farsteer doctor`: checks what Farsteer needs on this machine and says how to fix what is missing."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import socket
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from farsteer import __version__
from farsteer.agents import registry
from farsteer.cli import context
from farsteer.cli.exit_codes import FAILURE, SUCCESS
from farsteer.cli.terminal.text import Style, StyledText, print_styled
from farsteer.client.config import find_url, running_hub, token_file
from farsteer.core.api import LimitView
from farsteer.core.errors import FarsteerError, Unavailable
from farsteer.core.text import clean_line

DESCRIPTION = """\
Check everything Farsteer needs on this machine: Python, the home directory, the
access token, disk space, git, the hub and the agents. Each line says what was
found and, after an arrow, how to fix it. Nothing is changed.
"""

EXAMPLES = """\
  farsteer doctor
  farsteer doctor --hub https://farsteer.example.com

exit codes: 0 nothing is broken, 1 at least one check is marked FAIL
"""

MIN_PYTHON = (3, 11)
LOW_DISK_BYTES = 1 << 30
CRITICAL_DISK_BYTES = 100 << 20
WARN_SHARE = 0.8
"""The part of a limit above which doctor warns."""


class Grade(StrEnum):
    """The result of a check, as it is printed."""

    OK = "ok"
    NOTE = "-"
    WARN = "warn"
    FAIL = "FAIL"


_STYLES = {Grade.OK: Style.GOOD, Grade.NOTE: Style.DIM, Grade.WARN: Style.ASK, Grade.FAIL: Style.BAD}


@dataclass(frozen=True, slots=True)
class Check:
    grade: Grade
    finding: str
    advice: str = ""


def doctor_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("doctor", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "--port", type=int, default=3006, help="port to check for `farsteer up` (default: %(default)s)"
    )
    return context.run(_print_checks(parser.parse_args(argv)))


async def _print_checks(arguments: argparse.Namespace) -> int:
    home = context.home_directory(arguments)
    code = SUCCESS
    async for check in run_checks(home, arguments.hub, arguments.port):
        grade = StyledText(f"{check.grade.value:<5}", _STYLES[check.grade])
        print_styled(sys.stdout, grade, StyledText(f" {clean_line(check.finding)}"))
        if check.advice:
            print(f"      → {clean_line(check.advice)}")
        if check.grade is Grade.FAIL:
            code = FAILURE
    return code


async def run_checks(home: Path, hub: str | None, port: int) -> AsyncIterator[Check]:
    yield check_python()
    yield check_home(home)
    yield check_token(home)
    yield check_disk(home)
    yield await check_git()
    async for check in check_hub(home, hub, port):
        yield check
    async for check in check_agents():
        yield check


def check_python() -> Check:
    finding = (
        f"Farsteer {__version__} on Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}"
    )
    if sys.version_info < MIN_PYTHON:
        return Check(Grade.FAIL, finding, f"install Python {'.'.join(map(str, MIN_PYTHON))} or later")
    if sys.platform == "win32":
        return Check(Grade.WARN, finding, "Linux and macOS are supported; on Windows use WSL")
    return Check(Grade.OK, finding)


def check_home(home: Path) -> Check:
    try:
        mode = home.stat().st_mode
    except FileNotFoundError:
        return Check(
            Grade.NOTE,
            f"home directory {home} does not exist yet",
            "`farsteer up` or `farsteer exec` creates it",
        )
    except OSError as error:
        return Check(
            Grade.FAIL,
            f"home directory {home} cannot be read: {error.strerror}",
            "choose another with --home",
        )
    if not stat.S_ISDIR(mode) or not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        return Check(Grade.FAIL, f"{home} is not a directory you can write to", "choose another with --home")
    if stat.S_IMODE(mode) & 0o077:
        return Check(Grade.WARN, f"home directory {home} is accessible to other users", f"chmod 700 {home}")
    return Check(Grade.OK, f"home directory {home} is accessible to you only")


def check_token(home: Path) -> Check:
    path = token_file(home)
    if os.environ.get("CLI_API_TOKEN"):
        return Check(Grade.OK, "access token from $CLI_API_TOKEN")
    if not path.exists():
        return Check(Grade.NOTE, "no access token yet", "`farsteer up` creates one")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        return Check(Grade.FAIL, f"token file {path} is accessible to other users", f"chmod 600 {path}")
    return Check(Grade.OK, f"access token in {path}")


def check_disk(home: Path) -> Check:
    directory = next(parent for parent in (home, *home.parents) if parent.exists())
    free = shutil.disk_usage(directory).free
    finding = f"{free / (1 << 30):.1f} GiB free for {home}"
    if free < CRITICAL_DISK_BYTES:
        return Check(Grade.FAIL, finding, "free some space: sessions are stored there")
    if free < LOW_DISK_BYTES:
        return Check(Grade.WARN, finding, "free some space soon: sessions are stored there")
    return Check(Grade.OK, finding)


async def check_git() -> Check:
    if shutil.which("git") is None:
        return Check(Grade.WARN, "git is not installed", "install git: sessions in a worktree need it")
    process = await asyncio.create_subprocess_exec(
        "git", "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return Check(Grade.OK, output.decode(errors="replace").strip())


async def check_hub(home: Path, hub: str | None, port: int) -> AsyncIterator[Check]:
    if hub is None and not os.environ.get("FARSTEER_HUB") and running_hub(home) is None:
        yield Check(Grade.NOTE, "no hub runs on this home directory", "`farsteer up` starts one")
        yield check_port(port)
        return
    from farsteer.client import AsyncClient

    url = hub or "the hub"
    try:
        url = find_url(hub)
        async with AsyncClient(hub) as client:
            health = await client.health()
            same = health.version == __version__
            yield Check(
                Grade.OK if same else Grade.WARN,
                f"hub {health.version} at {url}",
                "" if same else "the versions differ: update the older one",
            )
            machines = await client.machines()
            limits = await client.limits() if same else []
    except Unavailable as error:
        yield Check(
            Grade.FAIL, f"hub: {error.message}", "start it with `farsteer up`, or correct the address"
        )
        return
    except FarsteerError as error:
        yield Check(Grade.FAIL, f"hub at {url}: {error.message}", "check the address and the access token")
        return
    active = [machine for machine in machines if machine.active]
    names = ", ".join(machine.name or machine.host for machine in active)
    if active:
        yield Check(Grade.OK, f"{len(active)} of {len(machines)} machines connected: {names}")
    else:
        yield Check(Grade.WARN, "no machine is connected to the hub", "`farsteer runner` connects one")
    if limits:
        yield check_limits(limits)


def check_limits(limits: Sequence[LimitView]) -> Check:
    """Warn of limits that are nearly reached."""
    used = ", ".join(f"{one.kind} {one.used} of {one.limit}" for one in limits)
    scarce = [one.kind for one in limits if one.used > one.limit * WARN_SHARE]
    if scarce:
        advice = (
            f"delete what is not needed, or raise {', '.join(scarce)} under [limits] in the hub's hub.toml"
        )
        return Check(Grade.WARN, f"limits: {used}", advice)
    return Check(Grade.OK, f"limits: {used}")


def check_port(port: int) -> Check:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return Check(
                Grade.WARN,
                f"port {port} cannot be used: {error.strerror}",
                "choose another with `farsteer up --port N`",
            )
    return Check(Grade.OK, f"port {port} is free")


async def check_agents() -> AsyncIterator[Check]:
    for name in registry.names():
        try:
            info = await registry.adapter(name).detect()
        except FarsteerError as error:
            yield Check(Grade.WARN, f"agent {name}: {error.message}")
            continue
        if info.available:
            yield Check(Grade.OK, f"agent {info.name} {info.version or ''}".rstrip())
        else:
            yield Check(
                Grade.NOTE,
                f"agent {info.name}: {info.reason or 'not installed'}",
                info.install or "",
            )
