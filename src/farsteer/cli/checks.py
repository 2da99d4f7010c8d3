"""The doctor's checks. Each says how one thing is and, if it is not well, what to do."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import socket
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from farsteer import __version__
from farsteer.agents import registry
from farsteer.cli.text import clean
from farsteer.client.access import find_url, running_hub, token_file
from farsteer.core.errors import FarsteerError, Unavailable

MIN_PYTHON = (3, 11)
LITTLE_DISK = 1 << 30
VERY_LITTLE_DISK = 100 << 20


class Grade(StrEnum):
    OK = "ok"
    NOTE = "-"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Check:
    grade: Grade
    what: str
    how: str = ""


async def check_all(home: Path, hub: str | None, port: int) -> AsyncIterator[Check]:
    yield python()
    for check in (*home_directory(home), *token(home), disk(home)):
        yield check
    yield await git()
    async for check in hub_checks(home, hub, port):
        yield check
    async for check in agents():
        yield check


def python() -> Check:
    what = f"Farsteer {__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    if sys.version_info < MIN_PYTHON:
        return Check(Grade.FAIL, what, f"install Python {'.'.join(map(str, MIN_PYTHON))} or later")
    if sys.platform == "win32":
        return Check(Grade.WARN, what, "Linux and macOS are supported; on Windows use WSL")
    return Check(Grade.OK, what)


def home_directory(home: Path) -> Iterator[Check]:
    try:
        mode = home.stat().st_mode
    except FileNotFoundError:
        yield Check(
            Grade.NOTE, f"home {home} does not exist yet", "`farsteer up` or `farsteer exec` makes it"
        )
        return
    except OSError as error:
        yield Check(Grade.FAIL, f"home {home} cannot be read: {error.strerror}", "choose another with --home")
        return
    if not stat.S_ISDIR(mode) or not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield Check(Grade.FAIL, f"home {home} is no directory you can write to", "choose another with --home")
    elif stat.S_IMODE(mode) & 0o077:
        yield Check(Grade.WARN, f"home {home} is open to others", f"chmod 700 {home}")
    else:
        yield Check(Grade.OK, f"home {home}, closed to others")


def token(home: Path) -> Iterator[Check]:
    path = token_file(home)
    if os.environ.get("CLI_API_TOKEN"):
        yield Check(Grade.OK, "access token from $CLI_API_TOKEN")
    elif not path.exists():
        yield Check(Grade.NOTE, "no access token yet", "`farsteer up` makes one")
    elif stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield Check(Grade.FAIL, f"token file {path} is open to others", f"chmod 600 {path}")
    else:
        yield Check(Grade.OK, f"access token in {path}")


def disk(home: Path) -> Check:
    place = next(parent for parent in (home, *home.parents) if parent.exists())
    free = shutil.disk_usage(place).free
    what = f"{free / (1 << 30):.1f} GiB free for {home}"
    if free < VERY_LITTLE_DISK:
        return Check(Grade.FAIL, what, "free some space: sessions are stored there")
    return Check(Grade.WARN, what, "not much") if free < LITTLE_DISK else Check(Grade.OK, what)


async def git() -> Check:
    if shutil.which("git") is None:
        return Check(Grade.WARN, "no git", "install git: sessions in a worktree of their own need it")
    process = await asyncio.create_subprocess_exec(
        "git", "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return Check(Grade.OK, clean(output.decode(errors="replace").strip()))


async def hub_checks(home: Path, hub: str | None, port: int) -> AsyncIterator[Check]:
    if hub is None and not os.environ.get("FARSTEER_HUB") and running_hub(home) is None:
        yield Check(Grade.NOTE, "no hub runs on this home", "`farsteer up` starts one")
        yield port_check(port)
        return
    from farsteer.client import AsyncClient

    url = hub or "the hub"
    try:
        url = find_url(hub)
        async with AsyncClient(hub) as client:
            health = await client.health()
            grade = Grade.OK if health.version == __version__ else Grade.WARN
            yield Check(
                grade,
                f"hub {health.version} at {url}",
                "" if grade is Grade.OK else "versions differ; update",
            )
            machines = await client.machines()
    except Unavailable as error:
        yield Check(
            Grade.FAIL, f"hub: {clean(error.message)}", "start it with `farsteer up`, or correct the address"
        )
        return
    except FarsteerError as error:
        yield Check(
            Grade.FAIL, f"hub at {url}: {clean(error.message)}", "check the address and the access token"
        )
        return
    active = [machine for machine in machines if machine.active]
    names = ", ".join(clean(machine.name or machine.host) for machine in active)
    if active:
        yield Check(Grade.OK, f"{len(active)} of {len(machines)} machines connected: {names}")
    else:
        yield Check(Grade.WARN, "no machine is connected to the hub", "`farsteer runner` connects one")


def port_check(port: int) -> Check:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return Check(
                Grade.WARN,
                f"port {port} cannot be used: {error.strerror}",
                "`farsteer up --port N` takes another",
            )
    return Check(Grade.OK, f"port {port} is free")


async def agents() -> AsyncIterator[Check]:
    for name in registry.names():
        try:
            info = await registry.adapter(name).detect()
        except FarsteerError as error:
            yield Check(Grade.WARN, f"agent {name}: {clean(error.message)}")
            continue
        if info.available:
            yield Check(Grade.OK, f"agent {clean(info.name)} {clean(info.version or '')}".rstrip())
        else:
            yield Check(
                Grade.NOTE,
                f"agent {clean(info.name)}: {clean(info.reason or 'not here')}",
                clean(info.install or ""),
            )
