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
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path

from farsteer import __version__
from farsteer.agents.providers.provider import provider_names
from farsteer.agents.registry import CATALOG, AgentRegistry
from farsteer.cli import context
from farsteer.cli.exit_codes import FAILURE, SUCCESS
from farsteer.cli.terminal.text import Style, StyledText, print_styled
from farsteer.client.config import (
    find_url,
    is_loopback,
    login_file,
    running_hub,
    stored_login,
    token_file,
    token_source,
)
from farsteer.client.settings import find_number, find_text, read_config
from farsteer.core.api import LimitView, MachineView
from farsteer.core.errors import FarsteerError, Unavailable
from farsteer.core.ids import is_uuid
from farsteer.core.text import clean_line
from farsteer.storage.home import read_private
from farsteer.storage.inspection import inspect
from farsteer.storage.quarantine import Quarantine

DESCRIPTION = """\
Check everything Farsteer needs on this machine: Python, the home directory, its
settings, the access token, disk space, the databases, git, the hub, the link to it,
the versions, the clock, and each agent with its login. Each line says what was found
and, after an arrow, how to fix it. Nothing is changed.
"""

EXAMPLES = """\
  farsteer doctor
  farsteer doctor --hub https://farsteer.example.com

exit codes: 0 nothing is broken, 1 at least one check is marked FAIL
"""

MIN_PYTHON = (3, 11)
LOW_DISK_BYTES = 1 << 30
CRITICAL_DISK_BYTES = 100 << 20
RESERVED_FILES = 200
"""Descriptors for everything but agents: databases, sockets, the program itself."""
PROCESSES_PER_AGENT = 4
"""Processes and threads. An agent that runs tools needs more than one."""
CLOCK_SECONDS = 10.0
CLOCK_TOLERANCE = 30.0
"""Seconds that two clocks may differ; the hub tells whole seconds, and its answer takes a while."""
WARN_SHARE = 0.8
"""The part of a limit above which doctor warns."""


class Grade(StrEnum):
    """The result of a check, as it is printed."""

    OK = "ok"
    NOTE = "-"
    WARN = "warn"
    FAIL = "FAIL"


_WITH_LOGIN = frozenset({"claude", "codex", "droid"})

_STYLES = {Grade.OK: Style.GOOD, Grade.NOTE: Style.DIM, Grade.WARN: Style.ASK, Grade.FAIL: Style.BAD}


@dataclass(frozen=True, slots=True)
class Check:
    grade: Grade
    finding: str
    advice: str = ""


def doctor_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("doctor", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    context.add_setting(parser, "port", type=int)
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


async def run_checks(home: Path, hub: str | None, port: int | None) -> AsyncIterator[Check]:
    yield check_python()
    yield check_home(home)
    settings = check_settings(home)
    yield settings
    if settings.grade is not Grade.FAIL:
        yield check_token(home, hub)
    yield check_disk(home)
    yield check_capacity(home)
    databases = [*check_databases(home)]
    for check in databases:
        yield check
    identity = check_identity(home)
    if identity is not None:
        yield identity
    if (refused := check_lease(home)) is not None:
        yield refused
    yield await check_git()
    if all(check.grade is not Grade.FAIL for check in (settings, *databases)):
        async for check in check_hub(home, hub, find_number("port", port)):
            yield check
    async for check in check_agents(home):
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


def check_settings(home: Path) -> Check:
    from farsteer.hub.settings import load_settings

    try:
        read_config(home)
        load_settings(home)
    except FarsteerError as error:
        return Check(Grade.FAIL, error.message, "correct the file")
    return Check(Grade.OK, "the settings can be read; `farsteer config` shows them")


def check_token(home: Path, hub: str | None = None) -> Check:
    for path in (token_file(home), login_file(home)):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            return Check(Grade.FAIL, f"token file {path} is accessible to other users", f"chmod 600 {path}")
    try:
        url = find_url(hub)
        source = token_source(url)
    except FarsteerError as error:
        return Check(Grade.FAIL, error.message)
    if source is not None:
        return Check(Grade.OK, f"access token for {url} from {source}")
    if token_file(home).exists():
        return Check(Grade.OK, f"access token of the hub on this home directory in {token_file(home)}")
    return Check(
        Grade.NOTE,
        "no access token yet",
        "`farsteer up` creates one, `farsteer login` stores one of another hub",
    )


def check_disk(home: Path) -> Check:
    directory = next(parent for parent in (home, *home.parents) if parent.exists())
    free = shutil.disk_usage(directory).free
    finding = f"{free / (1 << 30):.1f} GiB free for {home}"
    if free < CRITICAL_DISK_BYTES:
        return Check(Grade.FAIL, finding, "free some space: sessions are stored there")
    if free < LOW_DISK_BYTES:
        return Check(Grade.WARN, finding, "free some space soon: sessions are stored there")
    return Check(Grade.OK, finding)


def check_databases(home: Path) -> Iterator[Check]:
    for path in (home / "hub.db", home / "runner.db"):
        try:
            found = inspect(path)
        except FileNotFoundError:
            continue
        finding = f"{path.name} has {found.size / (1 << 20):.1f} MiB"
        rows = Quarantine(path).read()
        if rows:
            sessions = sorted({row.session_id or row.table for row in rows})
            yield Check(
                Grade.WARN,
                f"{path.name}: {len(rows)} records could not be read and were set aside ({', '.join(sessions[:5])})",
                f"what is left of them is in {Quarantine(path).path}; remove the file when you do not need it",
            )
        if found.problem is not None:
            what, _, advice = found.problem.partition(": ")
            yield Check(Grade.FAIL, what, advice)
        elif found.is_whole:
            yield Check(Grade.OK, f"{finding} and is whole")
        else:
            yield Check(Grade.OK, f"{finding}; it is large, a part of it was checked")


def check_identity(home: Path) -> Check | None:
    """A runner that lost its id is not taken for the machine that it was."""
    if not (home / "machine.key").exists():
        return None
    try:
        known = (read_private(home / "machine-id") or b"").decode(errors="replace").strip()
    except FarsteerError as error:
        return Check(Grade.FAIL, error.message)
    if is_uuid(known):
        return Check(Grade.OK, f"this machine is {known}")
    return Check(
        Grade.WARN,
        f"{home / 'machine-id'} is missing or damaged",
        "the next start of the runner takes the id from the sessions in runner.db, or says what to do",
    )


def check_lease(home: Path) -> Check | None:
    """Return what a hub has said to the runner of this home, if it refuses it."""
    from farsteer.runner.lease import read_lease_file

    try:
        refused = read_lease_file(home).refused
    except FarsteerError:
        return None
    return None if refused is None else Check(Grade.FAIL, f"the runner on {home} is refused: {refused}")


def check_capacity(home: Path) -> Check:
    """Say how many agents can run here, and what bounds their number."""
    import resource

    import psutil

    from farsteer.agents.process.file_limit import DESCRIPTORS_PER_AGENT, reachable_file_limit
    from farsteer.runner.machine import load_settings

    try:
        live_agents = load_settings(home).live_agents
    except FarsteerError as error:
        return Check(Grade.FAIL, error.message, "correct the file")
    files = reachable_file_limit()
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    bounds = {
        f"live_agents = {live_agents} in runner.toml": live_agents,
        f"{files} open files": (files - RESERVED_FILES) // DESCRIPTORS_PER_AGENT,
    }
    if processes != resource.RLIM_INFINITY:
        bounds[f"{processes} processes of this user"] = processes // PROCESSES_PER_AGENT
    agents, bound = min((count, bound) for bound, count in bounds.items())
    memory = psutil.virtual_memory()
    free = f"{memory.available / (1 << 30):.1f} of {memory.total / (1 << 30):.1f} GiB of memory available to them"
    finding = f"room for {max(agents, 0)} agents ({bound}), {free}"
    if agents < live_agents:
        return Check(Grade.WARN, finding, "raise the hard limit (ulimit -H), or lower live_agents")
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
    named = find_text("hub", hub) or running_hub(home) or stored_login(home)
    if not named:
        yield Check(Grade.NOTE, "no hub runs on this home directory", "`farsteer up` starts one")
        yield check_port(port)
        if (clock := check_own_clock()) is not None:
            yield clock
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
            clock = await check_clock(url)
            if clock is not None:
                yield clock
            machines = await client.machines()
            limits = await client.limits() if same else []
    except Unavailable as error:
        start = "start it with `farsteer up`" if is_loopback(url) else "start it on its machine"
        yield Check(Grade.FAIL, f"hub: {error.message}", f"{start}, or correct the address")
        return
    except FarsteerError as error:
        advice = "check the address and the access token; `farsteer login` stores another one"
        yield Check(Grade.FAIL, f"hub at {url}: {error.message}", advice)
        return
    active = [machine for machine in machines if machine.active]
    names = ", ".join(machine.name or machine.host for machine in active)
    if active:
        yield Check(Grade.OK, f"{len(active)} of {len(machines)} machines connected: {names}")
    else:
        yield Check(Grade.WARN, "no machine is connected to the hub", "`farsteer runner` connects one")
    yield check_link(home, machines, url)
    for machine in machines:
        if machine.active and machine.version != health.version:
            yield Check(
                Grade.WARN,
                f"machine {machine.name or machine.host} has Farsteer {machine.version}, the hub {health.version}",
                "they work together; update the older one",
            )
        if machine.active and machine.problem is not None:
            yield Check(Grade.FAIL, f"machine {machine.name or machine.host}: {machine.problem}")
        if machine.conflict is not None:
            yield Check(Grade.WARN, f"machine {machine.name or machine.host}: {machine.conflict.message}")
    if limits:
        yield check_limits(limits)
    foreign = sum(machine.foreign_sessions for machine in machines)
    if foreign:
        yield Check(
            Grade.WARN,
            f"{foreign} sessions are known only to their machines: of another hub, or lost with the hub's database",
            "`farsteer sessions foreign` lists them, `farsteer sessions adopt` and `end` decide",
        )


def check_link(home: Path, machines: Sequence[MachineView], url: str) -> Check:
    """Say whether this machine is linked to the hub."""
    try:
        known = (read_private(home / "machine-id") or b"").decode(errors="replace").strip()
    except FarsteerError as error:
        return Check(Grade.FAIL, error.message)
    connect = f"`farsteer runner --hub {url}` connects it, with a token that has the scope `runner`"
    here = next((machine for machine in machines if machine.id == known), None)
    if here is None:
        return Check(Grade.NOTE, "agents of this machine cannot be used by the hub", connect)
    if here.active:
        return Check(Grade.OK, "this machine is linked to the hub")
    return Check(Grade.WARN, "this machine is known to the hub and not linked", connect)


def check_own_clock() -> Check | None:
    """Without a hub to compare with: a clock before the date of our own files is wrong."""
    written = Path(__file__).stat().st_mtime
    if time.time() + CLOCK_TOLERANCE >= written:
        return None
    return Check(
        Grade.WARN,
        "the clock of this machine is behind: it was installed in its future",
        "set it, best by NTP",
    )


async def check_clock(url: str) -> Check | None:
    """Compare the clock of this machine with the hub's, which tells the time in every response."""
    import httpx

    try:
        async with httpx.AsyncClient(timeout=CLOCK_SECONDS) as http:
            told = (await http.get(f"{url}/health")).headers.get("date")
        seconds = time.time() - parsedate_to_datetime(told or "").timestamp()
    except (httpx.HTTPError, ValueError):
        return None
    if abs(seconds) <= CLOCK_TOLERANCE:
        return Check(Grade.OK, "the clock agrees with the hub's")
    return Check(
        Grade.WARN,
        f"the clock of this machine is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} the hub's",
        "set both by NTP: tokens expire by the hub's clock, and logs are stamped by the machine's",
    )


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


async def check_agents(home: Path) -> AsyncIterator[Check]:
    registry = AgentRegistry(home)
    providers, without_key, without_cli = provider_names(home), list[str](), list[str]()
    missing: list[str] = []
    for name in registry.names():
        try:
            info = await registry.adapter(name).detect()
        except FarsteerError as error:
            yield Check(Grade.WARN, f"agent {name}: {error.message}")
            continue
        named = f"agent {info.name} {info.version or ''}".rstrip()
        if not info.available and name in providers:
            without_cli.append(name)
        elif not info.available and name in CATALOG:
            missing.append(name)
        elif not info.available:
            reason = info.reason or "not installed"
            yield Check(Grade.NOTE, f"agent {info.name}: {reason}", info.install or "")
        elif info.login and name in providers:
            without_key.append(name)
        elif info.login or info.warning:
            if info.login:
                yield Check(Grade.WARN, f"{named} is not logged in", info.login)
            if info.warning:
                yield Check(Grade.WARN, f"{named}: {info.warning}")
        elif name in providers:
            yield Check(Grade.OK, f"{named} has a key")
        else:
            yield Check(Grade.OK, f"{named} is logged in" if name in _WITH_LOGIN else named)
    if missing:
        names = ", ".join(missing)
        yield Check(Grade.NOTE, f"further agents that can be installed: {names}", "farsteer agents NAME")
    if without_cli:
        names = ", ".join(without_cli)
        yield Check(Grade.NOTE, f"model providers that need Claude Code: {names}")
    if without_key:
        names = ", ".join(without_key)
        yield Check(Grade.NOTE, f"model providers without a key: {names}", "farsteer agents login NAME")
