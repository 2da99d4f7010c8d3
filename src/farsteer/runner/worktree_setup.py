"""The setup of a new worktree: what a repository wants to run in it before an agent works there.

`.farsteer/worktree.toml` is a file of the repository, which an agent can write. So it runs only after the owner of the
machine has allowed this repository this very file, with `farsteer worktrees allow`: a changed file asks again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from farsteer.agents.process.environment import LAUNCH_VARIABLE, LaunchMark, scrub_environment
from farsteer.agents.process.posix import kill_marked
from farsteer.agents.process.user import AgentUser
from farsteer.core.errors import BadRequest, ErrorCode, Unprocessable
from farsteer.core.text import clean, clean_line
from farsteer.core.wire import WireStruct, decode, encode
from farsteer.core.worktrees import SETUP_SECONDS
from farsteer.runner.git import GitRepository
from farsteer.storage.home import read_private, write_secret

SETUP_FILE = ".farsteer/worktree.toml"
_ALLOWED_FILE = "worktree-setup.json"
_MAX_FILE = 64 * 1024
_MAX_OUTPUT = 64 * 1024
_SHOWN_OUTPUT = 2000
_MAX_DIGESTS = 20
_LAST_OUTPUT_SECONDS = 0.5
_Argument = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
_Command = Annotated[tuple[_Argument, ...], msgspec.Meta(min_length=1, max_length=1000)]


class Setup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`.farsteer/worktree.toml`."""

    setup: Annotated[tuple[_Command, ...], msgspec.Meta(max_length=20)]
    """Commands that run one after the other in the new worktree, each a list of arguments. No shell reads them."""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=SETUP_SECONDS)] = 120.0
    """Seconds that all of them may take together."""


class SetupFile(NamedTuple):
    setup: Setup
    digest: str


class _Allowed(WireStruct):
    digests: dict[str, list[str]] = {}
    """The files that each repository may use, by the directory with its branches."""


def parse_setup(content: bytes, name: str = SETUP_FILE) -> SetupFile:
    """Raises BadRequest."""
    try:
        return SetupFile(
            msgspec.toml.decode(content, type=Setup), hashlib.sha256(content.rstrip()).hexdigest()
        )
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"{name}: {clean_line(str(error))}") from None


async def read_setup(checkout: GitRepository) -> SetupFile | None:
    """Return the setup that a worktree's commit has, None if it has none. Raises Unprocessable for an invalid one.

    Git reads it, so that no link leads elsewhere.
    """
    found = await checkout.run("cat-file", "blob", f"HEAD:{SETUP_FILE}", limit=_MAX_FILE)
    if found.code != 0 and not found.truncated:
        return None
    if found.truncated:
        raise Unprocessable(f"{SETUP_FILE} is too long", code=ErrorCode.WORKTREE_SETUP_FAILED)
    content = os.fsencode(found.out)
    try:
        parsed = parse_setup(content)
    except BadRequest as error:
        raise Unprocessable(error.message, code=ErrorCode.WORKTREE_SETUP_FAILED) from None
    return parsed


def is_allowed(home: Path, repository: Path, digest: str) -> bool:
    """Return whether the owner of this machine lets a repository run the setup file with this digest."""
    return digest in _read(home).digests.get(os.path.realpath(repository), ())


def allow(home: Path, repository: Path, digest: str) -> None:
    """Let a repository run this setup file in new worktrees. Files that were allowed before stay allowed."""
    key, digests = os.path.realpath(repository), _read(home).digests
    known = [one for one in digests.get(key, ()) if one != digest]
    write_secret(home / _ALLOWED_FILE, encode(_Allowed({**digests, key: [*known, digest][-_MAX_DIGESTS:]})))


def disallow(home: Path, repository: Path) -> bool:
    """Take back all that was allowed to a repository. Returns whether that was anything."""
    key, digests = os.path.realpath(repository), _read(home).digests
    if key not in digests:
        return False
    left = {name: value for name, value in digests.items() if name != key}
    write_secret(home / _ALLOWED_FILE, encode(_Allowed(left)))
    return True


def _read(home: Path) -> _Allowed:
    path = home / _ALLOWED_FILE
    try:
        return decode(read_private(path) or b"{}", _Allowed)
    except msgspec.DecodeError as error:
        raise BadRequest(f"{path} is damaged: {error}. Remove it, and allow the repositories again") from None


async def run_setup(setup: Setup, directory: Path, mark: LaunchMark, user: AgentUser | None) -> None:
    """Run the commands. Whatever they started and left running ends with them.

    They see the variables that every agent sees, and no key. Raises Unprocessable (`worktree_setup_failed`) with the
    end of the output of the command that failed.
    """
    environment = {**scrub_environment(os.environ), LAUNCH_VARIABLE: str(mark)}
    try:
        async with asyncio.timeout(setup.timeout):
            for argv in setup.setup:
                await _run(argv, directory, environment, user)
    except TimeoutError:
        raise Unprocessable(
            f"the setup of the worktree did not finish within {setup.timeout:g} s",
            code=ErrorCode.WORKTREE_SETUP_FAILED,
        ) from None
    finally:
        await asyncio.to_thread(kill_marked, lambda value: value == str(mark))


async def _run(
    command: tuple[str, ...], directory: Path, environment: Mapping[str, str], user: AgentUser | None
) -> None:
    argv, variables = [*command], dict(environment)
    if user is not None:
        argv, variables = user.command(argv), user.environment(variables)
    name = clean_line(" ".join(command), 200)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=directory, env=variables, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise Unprocessable(
            f"setup: {name} cannot be run: {error}", code=ErrorCode.WORKTREE_SETUP_FAILED
        ) from None
    assert process.stdout is not None
    end = bytearray()
    reading = asyncio.create_task(_keep_end(process.stdout, end))
    try:
        code = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # What has left the group may hold the output open. It ends with the whole setup.
        await asyncio.wait([reading], timeout=_LAST_OUTPUT_SECONDS)
        reading.cancel()
    if code != 0:
        said = clean(bytes(end[-_SHOWN_OUTPUT:]).decode(errors="replace")).strip()
        raise Unprocessable(
            f"setup: {name} ended with {code}" + (f": {said}" if said else ""),
            code=ErrorCode.WORKTREE_SETUP_FAILED,
        )


async def _keep_end(stream: asyncio.StreamReader, end: bytearray) -> None:
    while chunk := await stream.read(_MAX_OUTPUT):
        end += chunk
        del end[: max(len(end) - _MAX_OUTPUT, 0)]
