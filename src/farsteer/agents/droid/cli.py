"""The installed Droid CLI: where it is, its version, and what that version can do."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path

import msgspec

from farsteer.agents.process.environment import scrub_environment
from farsteer.core.capabilities import Capabilities

EXECUTABLE_VARIABLE = "DROID_EXECUTABLE"
ENVIRONMENT = {"FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"}
"""Always set: a Droid that looks for an update first may not answer for minutes."""
INSTALL_COMMAND = "npm install -g droid"

_PACKAGE_PREFIX = "@factory/cli"
_PACKAGE_DEPTH = 3
_VERSION_TIMEOUT = 20.0
_VERSION = re.compile(rb"\d+\.\d+\.\d+\S*")
_CAPABILITIES = Capabilities(
    resume=True, rewind=True, fork=True, live_model=True, live_mode=True, live_effort=True, file_restore=True,
    approvals=True, questions=True, plans=True, images=True, usage=True, import_history=True, mcp_servers=True,
)  # fmt: skip
"""What the newest version can do."""
_REWINDS_SINCE = (0, 200)
"""Up to 0.117 a rewind copies the whole conversation, so older versions can neither rewind nor fork at a message."""

_versions: dict[tuple[str, int, int], str] = {}
"""Known versions by path, modification time and size, because asking the CLI takes seconds."""


class _Package(msgspec.Struct):
    name: str
    version: str


def find_executable(executable: str | None = None) -> str | None:
    """Return the path of the CLI: as configured, from the environment, on PATH, or where its installer puts it."""
    named = executable or os.environ.get(EXECUTABLE_VARIABLE)
    if named:
        return shutil.which(named)
    return shutil.which("droid") or shutil.which(str(Path.home() / ".local" / "bin" / "droid"))


async def detect_version(path: str) -> str | None:
    """Return None if the CLI does not answer in time."""
    key = _file_identity(path)
    version = _versions.get(key) or _packaged_version(key[0]) or await _ask_version(path)
    if version is not None:
        _versions[key] = version
    return version


def capabilities_of(version: str | None) -> Capabilities:
    """Return what a version of the CLI can do; for None, what the newest version can do."""
    if version is None:
        return _CAPABILITIES
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers >= _REWINDS_SINCE:
        return _CAPABILITIES
    return msgspec.structs.replace(_CAPABILITIES, rewind=False, fork=False, file_restore=False)


def _file_identity(path: str) -> tuple[str, int, int]:
    status = os.stat(path)
    return os.path.realpath(path), status.st_mtime_ns, status.st_size


def _packaged_version(path: str) -> str | None:
    """Return the version of the npm package that contains the program."""
    for folder in Path(path).parents[:_PACKAGE_DEPTH]:
        try:
            package = msgspec.json.decode((folder / "package.json").read_bytes(), type=_Package)
        except (OSError, msgspec.DecodeError):
            continue
        is_droid = package.name == "droid" or package.name.startswith(_PACKAGE_PREFIX)
        return package.version if is_droid else None
    return None


async def _ask_version(path: str) -> str | None:
    process = await asyncio.create_subprocess_exec(
        path, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, env=scrub_environment(os.environ, extra=ENVIRONMENT),
        start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_VERSION_TIMEOUT):
            output, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = _VERSION.search(output)
    return found[0].decode() if found else None
