"""The program of an agent on this machine: where it is, and which version."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from farsteer.agents.process.environment import scrub_environment

_PACKAGE_DEPTH = 5
_VERSION_TIMEOUT = 20.0
_VERSION = re.compile(rb"\d+\.\d+\.\d+\S*")

_versions: dict[tuple[str, int, int], str] = {}
"""Known versions by path, modification time and size, because asking a program takes time."""


class _Package(msgspec.Struct):
    name: str
    version: str


@dataclass(frozen=True)
class AgentProgram:
    title: str
    """The name to show."""
    name: str
    """The name on PATH."""
    variable: str
    """The environment variable that names another program to use."""
    packages: tuple[str, ...]
    """The names of its npm packages, or how they begin."""
    places: tuple[str, ...] = ()
    """Where installers put it, below the user's home directory."""
    tested_version: str | None = None
    """A newer one is warned of."""
    environment_names: tuple[str, ...] = ()
    """Variables that it may see when it is asked for its version, besides the basic ones."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that are always set."""

    def find(self, executable: str | None = None) -> str | None:
        """Return its path: as configured, from the environment, on PATH, or where installers put it."""
        named = executable or os.environ.get(self.variable)
        if named:
            return shutil.which(named)
        places = (str(Path.home() / place) for place in self.places)
        return next((found for place in (self.name, *places) if (found := shutil.which(place))), None)

    async def find_version(self, path: str, *, may_ask: bool = True) -> str | None:
        """Return None if the program does not answer in time, or may not be asked and no package tells."""
        key = _file_identity(path)
        version = _versions.get(key) or self._packaged_version(key[0])
        if version is None and may_ask:
            version = await self._ask_version(path)
        if version is not None:
            _versions[key] = version
        return version

    def version_warning(self, version: str | None) -> str | None:
        """Return a warning about a version that is newer than the tested one."""
        tested = self.tested_version
        if version is None or tested is None or version_numbers(version) <= version_numbers(tested):
            return None
        return f"{self.title} {version} is newer than {tested}, the version that Farsteer was tested with"

    def _packaged_version(self, path: str) -> str | None:
        """Return the version of the npm package that contains the program: a node script, or the program behind it."""
        for folder in Path(path).parents[:_PACKAGE_DEPTH]:
            try:
                package = msgspec.json.decode((folder / "package.json").read_bytes(), type=_Package)
            except (OSError, msgspec.DecodeError):
                continue
            # The version of a package for one platform may have the platform's name behind it.
            return package.version.partition("-")[0] if package.name.startswith(self.packages) else None
        return None

    async def _ask_version(self, path: str) -> str | None:
        process = await asyncio.create_subprocess_exec(
            path, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
            env=scrub_environment(os.environ, self.environment_names, self.environment),
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


def _file_identity(path: str) -> tuple[str, int, int]:
    status = os.stat(path)
    return os.path.realpath(path), status.st_mtime_ns, status.st_size


def version_numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers to compare."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0])[:3])
