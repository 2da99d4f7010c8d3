"""What git says has changed in a directory since the last commit. Reads only, and runs nothing of the repository."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from farsteer.agents.process.user import AgentUser
from farsteer.core.api.files import MAX_CHANGES, MAX_PATCH, ChangedFile, ChangesResponse, FileDiff, FileStatus
from farsteer.core.errors import ErrorCode, Unprocessable
from farsteer.runner.file_access import FileAccess, not_allowed, shown
from farsteer.runner.git import GitRepository, GitResult

_MAX_LISTED = 1024 * 1024
_COMPARE = (
    # A submodule has a configuration of its own, which git would follow to look into it.
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short",
    "--no-relative", "-O/dev/null", "-M",
)  # fmt: skip
_STATUSES: dict[str, FileStatus] = {
    "A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied", "T": "type_changed",
    "U": "conflicted",
}  # fmt: skip


class DirectoryChanges:
    """The changes in one directory, which may be a part of its repository. Use `DirectoryChanges.find`."""

    def __init__(self, repository: GitRepository, prefix: str) -> None:
        self._git = repository
        self._prefix = prefix
        """The path of the directory in the repository, with a slash at its end, or empty."""

    @classmethod
    async def find(cls, directory: Path, user: AgentUser | None) -> DirectoryChanges:
        """Raises Unprocessable if the directory is in no repository."""
        repository = await GitRepository.find(directory, user)
        top = repository.top
        if not directory.is_relative_to(top):
            # The configuration of a repository may name another place for its files.
            raise Unprocessable(
                f"{directory} is not in a git repository of its own", code=ErrorCode.NOT_A_REPOSITORY
            )
        prefix = directory.relative_to(top).as_posix()
        return cls(repository, "" if prefix == "." else f"{prefix}/")

    async def list(self) -> ChangesResponse:
        head = await self._head()
        branch = await self._git.run("symbolic-ref", "--quiet", "--short", "HEAD")
        untracked = await self._listed("ls-files", "--others", "--exclude-standard", "-z")
        if head is None:
            compared = await self._listed("ls-files", "--cached", "-z")
            files = [self._changed("added", path) for path in _fields(compared)]
        else:
            compared = await self._listed(*_COMPARE, "--name-status", "-z", "HEAD")
            lines = _line_counts(await self._listed(*_COMPARE, "--numstat", "-z", "HEAD"))
            files = [
                self._changed(status, path, old, lines.get(path, (None, None)))
                for status, path, old in _statuses(compared)
            ]
        files += [self._changed("untracked", path) for path in _fields(untracked)]
        unmerged = {
            field.partition("\t")[2] for field in _fields(await self._listed("ls-files", "-z", "--unmerged"))
        }
        files += [self._changed("conflicted", path) for path in unmerged]
        # A file with conflicts is named more than once.
        unique = list({file.path: file for file in files}.values())
        unique.sort(key=lambda file: file.path)
        truncated = compared.truncated or untracked.truncated or len(unique) > MAX_CHANGES
        return ChangesResponse(
            branch=shown(branch.out) if branch.code == 0 else None,
            head=head,
            files=unique[:MAX_CHANGES],
            truncated=truncated,
        )

    async def diff(self, path: str, old_path: str | None) -> FileDiff:
        """Compare one file with the last commit. The patch is empty for one that git does not know (`is_new`)."""
        names = [self._checked(name) for name in (path, old_path) if name is not None]
        patch, truncated = "", False
        if await self._head() is not None:
            compare = (*_COMPARE, "--patch", "--src-prefix=a/", "--dst-prefix=b/", "HEAD")
            found = await self._git.run_without_filters(*compare, "--", *names, limit=MAX_PATCH)
            _check(found, "diff")
            patch, truncated = os.fsencode(found.out).decode(errors="replace"), found.truncated
        if truncated:
            patch = patch[: patch.rfind("\n") + 1]
        elif patch:
            patch += "\n"
        binary = "\n@@ " not in patch and "\nBinary files " in patch
        return FileDiff(path=path, old_path=old_path, patch=patch, binary=binary, truncated=truncated)

    async def is_new(self, path: str) -> bool:
        """Whether a file is there that the last commit does not have, if it has no difference to that."""
        name = self._checked(path)
        which = ("--others",) if await self._head() is not None else ("--others", "--cached")
        others = await self._git.run(
            "ls-files", *which, "--exclude-standard", "-z", "--", name, limit=_MAX_LISTED
        )
        _check(others, "ls-files")
        return name in _fields(others)

    async def _head(self) -> str | None:
        found = await self._git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return found.out if found.code == 0 else None

    async def _listed(self, *args: str) -> GitResult:
        place = self._prefix.removesuffix("/") or "."
        found = await self._git.run_without_filters(*args, "--", place, limit=_MAX_LISTED)
        _check(found, args[0])
        return found

    def _checked(self, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not parts or "\0" in path or path.startswith("/") or ".." in parts:
            raise not_allowed(f"{path!r} is not a path below the session's directory")
        return self._prefix + "/".join(parts)

    def _changed(
        self, status: FileStatus, path: str, old: str | None = None,
        lines: tuple[int | None, int | None] = (None, None),
    ) -> ChangedFile:  # fmt: skip
        return ChangedFile(
            path=shown(path.removeprefix(self._prefix)),
            old_path=None if old is None else shown(old.removeprefix(self._prefix)),
            status=status,
            additions=lines[0],
            deletions=lines[1],
        )


def _check(found: GitResult, command: str) -> None:
    if found.code != 0 and not found.truncated:
        raise Unprocessable(f"git {command} failed: {found.err[:1000]}", code=ErrorCode.GIT_FAILED)


def _fields(found: GitResult) -> list[str]:
    """Return the fields of an output with -z. The last one is dropped if it may have been cut off."""
    return found.out.split("\0")[:-1]


def _statuses(found: GitResult) -> Iterator[tuple[FileStatus, str, str | None]]:
    fields = iter(_fields(found))
    for code in fields:
        status = _STATUSES.get(code[:1], "modified")
        old = next(fields, None) if code[:1] in ("R", "C") else None
        path = next(fields, None)
        if path is not None:
            yield status, path, old


def _line_counts(found: GitResult) -> dict[str, tuple[int | None, int | None]]:
    fields = iter(_fields(found))
    counts: dict[str, tuple[int | None, int | None]] = {}
    for field in fields:
        added, _, rest = field.partition("\t")
        deleted, _, path = rest.partition("\t")
        if not path:  # renamed: the old and the new name follow
            next(fields, None)
            path = next(fields, "")
        counts[path] = (_number(added), _number(deleted))
    return counts


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def new_file(path: str, files: FileAccess) -> FileDiff:
    """Return the patch that adds a file."""
    found = files.read(path, 0, MAX_PATCH)
    is_binary = found.encoding != "utf-8"
    truncated = found.next_offset is not None
    lines = [] if is_binary else found.content.split("\n")
    ended = bool(lines) and lines[-1] == ""
    if ended or (truncated and len(lines) > 1):
        lines.pop()
    old, new = "/dev/null", _quoted(f"b/{path}")
    patch = f"diff --git {_quoted(f'a/{path}')} {new}\nnew file mode 100644\n"
    if lines:
        patch += f"--- {old}\n+++ {new}\n@@ -0,0 +1,{len(lines)} @@\n"
        patch += "".join(f"+{line}\n" for line in lines)
        if not ended and not truncated:
            patch += "\\ No newline at end of file\n"
    return FileDiff(path=path, old_path=None, patch=patch, binary=is_binary, truncated=truncated)


def _quoted(name: str) -> str:
    """Return a name as it stands in a patch: one with a line break must not look like lines of it."""
    needs_quotes = not name.isprintable() or any(char in name for char in '"\\')
    return json.dumps(name, ensure_ascii=False) if needs_quotes else name
