"""Which Droid is installed here."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path

import msgspec

from farsteer.agents.process.environment import scrub_environment

VARIABLE = "DROID_EXECUTABLE"
QUIET = {"FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"}
"""Always set: a Droid that looks for an update first may not answer for minutes."""
INSTALL = "npm install -g droid"

_SCOPE = "@factory/cli"
_DEPTH = 3
_VERSION_TIMEOUT = 20.0
_VERSION = re.compile(rb"\d+\.\d+\.\d+\S*")
_known: dict[tuple[str, int, int], str] = {}
"""Asking takes seconds: the answer holds as long as the file does not change."""


class _Package(msgspec.Struct):
    name: str
    version: str


def find(executable: str | None = None) -> str | None:
    """The path of the CLI: as configured, else by the environment, else on PATH, else where its installer puts it."""
    named = executable or os.environ.get(VARIABLE)
    if named:
        return shutil.which(named)
    return shutil.which("droid") or shutil.which(str(Path.home() / ".local" / "bin" / "droid"))


async def version(path: str) -> str | None:
    """None: it does not say one in time."""
    key = _identity(path)
    known = _known.get(key) or _packaged(key[0]) or await _ask(path)
    if known is not None:
        _known[key] = known
    return known


def _identity(path: str) -> tuple[str, int, int]:
    status = os.stat(path)
    return os.path.realpath(path), status.st_mtime_ns, status.st_size


def _packaged(path: str) -> str | None:
    """What npm says about the package that the program is in."""
    for folder in Path(path).parents[:_DEPTH]:
        try:
            package = msgspec.json.decode((folder / "package.json").read_bytes(), type=_Package)
        except (OSError, msgspec.DecodeError):
            continue
        return package.version if package.name == "droid" or package.name.startswith(_SCOPE) else None
    return None


async def _ask(path: str) -> str | None:
    process = await asyncio.create_subprocess_exec(
        path, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, env=scrub_environment(os.environ, extra=QUIET), start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_VERSION_TIMEOUT):
            said, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = _VERSION.search(said)
    return found[0].decode() if found else None
