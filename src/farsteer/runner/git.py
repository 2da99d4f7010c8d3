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
from collections.abc import Mapping, Sequence
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
    ("commit.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("merge.renormalize", "false"),
    ("core.safecrlf", "false"),
    ("rerere.enabled", "false"),
)
_VARIABLES = {
    # Overrides `protocol.*`. A partial clone would fetch missing objects with a command of its configuration.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    # A name of a file is no pattern, and what only reads must not lock out the git of an agent or a person.
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
_OWN_CONFIG_ONLY = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
_FILTER = re.compile(r"(filter\..*)\.(?:clean|smudge|process|required)", re.DOTALL)
_MERGE_DRIVER = re.compile(r"(merge\..*)\.driver", re.DOTALL)
_DUBIOUS_OWNERSHIP = "dubious ownership"
_CHUNK = 64 * 1024
_MAX_MESSAGES = 1024 * 1024


class GitResult(NamedTuple):
    code: int
    out: str
    err: str
    truncated: bool = False
    """There was more output than asked for, and git was ended."""


class GitRepository:
    """A repository. Use `GitRepository.find` to make one."""

    def __init__(self, top: Path, trusted: _Config, user: AgentUser | None) -> None:
        self.user = user
        self.top = top
        """The directory that holds the checked out files."""
        self._config = (*_OVERRIDES, *trusted)
        self._disabled: _Config | None = None

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

    async def run(
        self,
        *args: str,
        stdin: bytes | None = None,
        variables: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> GitResult:
        """Run a command of git's in `top`. Raises Unprocessable if it cannot be run or does not finish.

        Args:
            args: The command and its arguments.
            stdin: What git reads. None is nothing.
            variables: Further variables of its environment.
            limit: How many bytes of output are wanted. Git is ended when there is more.
        """
        argv = ("-C", str(self.top), *args)
        return await _run(argv, self._config, self.user, stdin=stdin, variables=variables, limit=limit)

    async def run_without_filters(
        self, *args: str, variables: Mapping[str, str] | None = None, limit: int | None = None
    ) -> GitResult:
        """Like `run`, for a command that checks out, compares or merges files.

        Their filters do not run: not one that the repository configures, and not Git LFS, which runs programs that the
        repository configures. A merge driver of the repository does not run either: what it would merge is a conflict.
        """
        if self._disabled is None:
            listed = await self.run("config", "--null", "--name-only", "--list")
            self._disabled = _disabled_programs(listed.out.split("\0"))
        argv = ("-C", str(self.top), *args)
        config = (*self._config, *self._disabled)
        return await _run(argv, config, self.user, variables=variables, limit=limit)

    async def check(
        self, *args: str, stdin: bytes | None = None, variables: Mapping[str, str] | None = None
    ) -> str:
        """Run a command that must succeed and return its output. Raises Unprocessable."""
        done = await self.run(*args, stdin=stdin, variables=variables)
        if done.code != 0:
            raise Unprocessable(f"git {args[0]} failed: {done.err}", code=ErrorCode.WORKTREE_FAILED)
        return done.out

    async def person(self, name: str) -> str | None:
        """Return `user.name` or `user.email` as git would know them here, or None."""
        ask = ("-C", str(self.top), "config", "--null", "--get", f"user.{name}")
        found = await _run(ask, self._config, self.user, own_only=False)
        return found.out.split("\0")[0].strip() or None if found.code == 0 else None

    async def run_program(self, *argv: str) -> GitResult:
        """Run another program than git as the same user."""
        return await _start([*argv], _environment((), own_only=True), self.user)


def _disabled_programs(names: Sequence[str]) -> _Config:
    filters = {match[1] for name in names if (match := _FILTER.fullmatch(name))}
    drivers = {match[1] for name in names if (match := _MERGE_DRIVER.fullmatch(name))}
    return (
        *(
            (f"{driver}.{key}", value)
            for driver in sorted(filters)
            for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
        ),
        # An empty driver would silently take one side.
        *((f"{driver}.driver", "false") for driver in sorted(drivers)),
    )


async def _trusted_repositories(user: AgentUser | None) -> _Config:
    found: list[tuple[str, str]] = []
    for scope in ("--system", "--global"):
        ask = ("config", scope, "--null", "--get-all", "safe.directory")
        values = await _run(ask, (), user, own_only=False)
        found += (("safe.directory", value) for value in values.out.split("\0")[:-1])
    return found


async def _run(
    args: Sequence[str],
    config: _Config,
    user: AgentUser | None,
    *,
    own_only: bool = True,
    stdin: bytes | None = None,
    variables: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> GitResult:
    environment = {**_environment(config, own_only=own_only), **(variables or {})}
    return await _start(["git", *args], environment, user, stdin=stdin, limit=limit)


async def _start(
    argv: list[str],
    environment: dict[str, str],
    user: AgentUser | None,
    *,
    stdin: bytes | None = None,
    limit: int | None = None,
) -> GitResult:
    if user is not None:
        argv, environment = user.command(argv), user.environment(environment)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise Unprocessable(f"git cannot be run: {error}", code=ErrorCode.WORKTREE_FAILED) from error
    truncated = False
    try:
        async with asyncio.timeout(_SECONDS):
            if limit is None:
                out, err = await process.communicate(stdin)
            else:
                (out, truncated), (err, _) = await asyncio.gather(
                    _read(process, process.stdout, limit), _read(process, process.stderr, _MAX_MESSAGES)
                )
                await process.wait()
    except TimeoutError as error:
        _kill(process)
        await process.wait()
        raise Unprocessable(
            f"git did not finish within {_SECONDS:g} s", code=ErrorCode.WORKTREE_FAILED, unfinished=True
        ) from error
    # Names and paths need not be UTF-8, and must reach git unchanged.
    return GitResult(
        process.returncode or 0,
        os.fsdecode(out.removesuffix(b"\n")),
        err.decode(errors="replace").strip(),
        truncated,
    )


async def _read(
    process: asyncio.subprocess.Process, stream: asyncio.StreamReader | None, limit: int
) -> tuple[bytes, bool]:
    """Return at most `limit` bytes, and whether there was more, for which the process is ended."""
    assert stream is not None
    found = bytearray()
    while chunk := await stream.read(_CHUNK):
        found += chunk
        if len(found) > limit:
            _kill(process)
            return bytes(found[:limit]), True
    return bytes(found), False


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _environment(config: _Config, *, own_only: bool) -> dict[str, str]:
    """Return the environment of git. Variables `GIT_*` of the runner are not in it."""
    variables = {**_VARIABLES, **(_OWN_CONFIG_ONLY if own_only else {}), "GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return scrub_environment(os.environ, extra=variables)
