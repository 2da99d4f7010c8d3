"""Git, without running anything that a repository configures.

An agent can write the configuration and the hooks of the repository it works in, and what git would run for the runner
is outside of the agent's permission mode. Therefore no hook, filter, monitor or transport runs, and neither the user's
nor the system's configuration is read, except which repositories of other users they trust (`safe.directory`).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from farsteer.agents.process.environment import scrub_environment
from farsteer.agents.process.user import AgentUser
from farsteer.core.errors import ErrorCode, Unprocessable

_SECONDS = 60.0
_Config = Sequence[tuple[str, str]]
_OVERRIDES: _Config = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", os.devnull),
    ("submodule.recurse", "false"),
    ("safe.bareRepository", "explicit"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
_VARIABLES = {
    # Overrides `protocol.*`. A partial clone would fetch missing objects with a command of its configuration.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_OWN_CONFIG_ONLY = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
_FILTER = re.compile(r"(filter\..*)\.(?:clean|smudge|process|required)")
_DUBIOUS_OWNERSHIP = "dubious ownership"


class GitResult(NamedTuple):
    code: int
    out: str
    err: str


class GitRepository:
    """A repository. Use `GitRepository.find` to make one."""

    def __init__(self, top: Path, trusted: _Config, user: AgentUser | None) -> None:
        self._user = user
        self.top = top
        """The directory that holds the checked out files."""
        self._config = (*_OVERRIDES, *trusted)

    @classmethod
    async def find(cls, directory: Path, user: AgentUser | None = None) -> GitRepository:
        """Return the repository that `directory` is in. Raises Unprocessable if there is none.

        Git runs as `user`, if one is given, so that the files belong to the user of the agents.
        """
        ask = ("-C", str(directory), "rev-parse", "--show-toplevel")
        trusted: _Config = ()
        found = await _run(ask, _OVERRIDES, user)
        if _DUBIOUS_OWNERSHIP in found.err:
            trusted = await _trusted_repositories(user)
            found = await _run(ask, (*_OVERRIDES, *trusted), user)
        if found.code != 0:
            reason = f": {found.err}" if _DUBIOUS_OWNERSHIP in found.err else ""
            raise Unprocessable(
                f"{directory} is not in a git repository{reason}", code=ErrorCode.NOT_A_REPOSITORY
            )
        return cls(Path(found.out), trusted, user)

    async def run(self, *args: str) -> GitResult:
        """Run a command of git's in `top`. Raises Unprocessable if it cannot be run or does not finish."""
        return await _run(("-C", str(self.top), *args), self._config, self._user)

    async def run_without_filters(self, *args: str) -> GitResult:
        """Like `run`, for a command that checks out files.

        Their filters do not run: not one that the repository configures, and not Git LFS, which runs programs that the
        repository configures.
        """
        listed = await self.run("config", "--null", "--name-only", "--list")
        drivers = {match[1] for name in listed.out.split("\0") if (match := _FILTER.fullmatch(name))}
        disabled = [
            (f"{driver}.{key}", value)
            for driver in sorted(drivers)
            for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
        ]
        return await _run(("-C", str(self.top), *args), (*self._config, *disabled), self._user)


async def _trusted_repositories(user: AgentUser | None) -> _Config:
    found: list[tuple[str, str]] = []
    for scope in ("--system", "--global"):
        ask = ("config", scope, "--null", "--get-all", "safe.directory")
        values = await _run(ask, (), user, own_only=False)
        found += (("safe.directory", value) for value in values.out.split("\0")[:-1])
    return found


async def _run(
    args: Sequence[str], config: _Config, user: AgentUser | None, *, own_only: bool = True
) -> GitResult:
    argv, environment = ["git", *args], _environment(config, own_only=own_only)
    if user is not None:
        argv, environment = user.command(argv), user.environment(environment)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise Unprocessable(f"git cannot be run: {error}", code=ErrorCode.WORKTREE_FAILED) from error
    try:
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate()
    except TimeoutError as error:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise Unprocessable(
            f"git did not finish within {_SECONDS:g} s", code=ErrorCode.WORKTREE_FAILED
        ) from error
    # Names and paths need not be UTF-8, and must reach git unchanged.
    return GitResult(
        process.returncode or 0, os.fsdecode(out.removesuffix(b"\n")), err.decode(errors="replace").strip()
    )


def _environment(config: _Config, *, own_only: bool) -> dict[str, str]:
    """Return the environment of git. Variables `GIT_*` of the runner are not in it."""
    variables = {**_VARIABLES, **(_OWN_CONFIG_ONLY if own_only else {}), "GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return scrub_environment(os.environ, extra=variables)
