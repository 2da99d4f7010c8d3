"""Files of a session's directory, its changes, and directories for new sessions, as a runner shows them."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.process.user import AgentUser
from farsteer.core.errors import ErrorCode, NotCapable, TimedOut, Unprocessable
from farsteer.core.file_commands import (
    BrowseDirectories,
    FileCommand,
    ListChanges,
    ListDirectory,
    ReadDiff,
    ReadFile,
)
from farsteer.core.session import SessionState
from farsteer.runner import file_access
from farsteer.runner.blocking import BlockingWork
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.file_access import FileAccess
from farsteer.runner.files import MachineFiles
from tests.runner.test_worktrees import git, repository

__all__ = ["repository"]

SECRET = "the owner's token"


class World:
    """A runner's home with a secret, and a project of a session beside it."""

    def __init__(self, path: Path, roots: tuple[str, ...] = ()) -> None:
        self.home = path / "farsteer-home"
        self.home.mkdir()
        for name in ("hub.lock", "hub.db", "token"):
            (self.home / name).write_text(SECRET)
        self.project = path / "project"
        self.project.mkdir(exist_ok=True)
        self.files = MachineFiles(self.home, SessionDirectories(self.home, roots), None)

    async def ask(self, command: FileCommand) -> Any:
        state = SessionState(id="s", agent="demo", directory=str(self.project))
        return await self.files.answer(command, state)

    async def refused(self, command: FileCommand) -> ErrorCode:
        with pytest.raises(Unprocessable) as error:
            await self.ask(command)
        assert SECRET not in error.value.message
        return error.value.code


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# -- directories and files


async def test_a_directory_is_listed(world: World) -> None:
    (world.project / "b").mkdir()
    (world.project / "a.txt").write_text("12345")
    (world.project / "inside").symlink_to("b")
    (world.project / "outside").symlink_to("/etc")
    (world.project / "broken").symlink_to("nothing")
    os.mkfifo(world.project / "pipe")
    found = await world.ask(ListDirectory())
    assert [(one["name"], one["kind"], one["size"], one["target"]) for one in found["entries"]] == [
        ("b", "directory", None, None),
        ("a.txt", "file", 5, None),
        ("broken", "link", None, None),
        ("inside", "link", None, "directory"),
        ("outside", "link", None, None),
        ("pipe", "other", None, None),
    ]
    assert (found["path"], found["nextOffset"], found["truncated"]) == ("", None, False)
    assert (await world.ask(ListDirectory(path="inside")))["path"] == "b"


async def test_a_long_directory_comes_in_pages_and_a_very_long_one_is_cut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_access, "MAX_ENTRIES", 3)
    monkeypatch.setattr(file_access, "MAX_SCANNED", 5)
    for number in range(5):
        (world.project / f"{number}").touch()
    first = await world.ask(ListDirectory())
    rest = await world.ask(ListDirectory(offset=first["nextOffset"]))
    assert [one["name"] for one in first["entries"] + rest["entries"]] == ["0", "1", "2", "3", "4"]
    assert (first["nextOffset"], rest["nextOffset"], rest["truncated"]) == (3, None, False)
    assert (await world.ask(ListDirectory(offset=9)))["entries"] == []
    (world.project / "5").touch()
    assert (await world.ask(ListDirectory()))["truncated"] is True


async def test_a_file_is_read_in_parts_without_cutting_a_character(world: World) -> None:
    text = "naïve 🐋 text" * 3
    (world.project / "a.txt").write_text(text)
    offset, parts = 0, list[str]()
    while offset is not None:
        part = await world.ask(ReadFile(path="a.txt", offset=offset, length=7))
        assert (part["encoding"], part["size"], part["offset"]) == ("utf-8", len(text.encode()), offset)
        assert part["length"] == len(part["content"].encode()) <= 7
        parts.append(part["content"])
        offset = part["nextOffset"]
    assert "".join(parts) == text


async def test_what_is_no_text_is_base64(world: World) -> None:
    for data in (b"\x00\x01", b"\xff\xfe", b"text\xc3"):
        (world.project / "blob").write_bytes(data)
        found = await world.ask(ReadFile(path="blob"))
        assert (found["encoding"], base64.b64decode(found["content"])) == ("base64", data)
    (world.project / "empty").touch()
    found = await world.ask(ReadFile(path="empty"))
    assert (found["encoding"], found["content"], found["nextOffset"]) == ("utf-8", "", None)


async def test_at_most_a_megabyte_is_read(world: World) -> None:
    with (world.project / "large").open("wb") as file:
        file.truncate(10**12)
    found = await world.ask(ReadFile(path="large", length=10**12))
    assert (found["length"], found["nextOffset"], found["size"]) == (2**20, 2**20, 10**12)
    end = await world.ask(ReadFile(path="large", offset=10**12 + 5))
    assert (end["length"], end["nextOffset"]) == (0, None)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("nothing", ErrorCode.FILE_MISSING),
        ("a.txt/b", ErrorCode.FILE_MISSING),
        ("../nothing", ErrorCode.FILE_NOT_ALLOWED),
        ("../farsteer-home/token", ErrorCode.FILE_NOT_ALLOWED),
        ("/etc/passwd", ErrorCode.FILE_NOT_ALLOWED),
        ("a\0b", ErrorCode.FILE_NOT_ALLOWED),
        ("link", ErrorCode.FILE_NOT_ALLOWED),
        ("up/farsteer-home/token", ErrorCode.FILE_NOT_ALLOWED),
        ("loop", ErrorCode.FILE_NOT_ALLOWED),
        ("hard", ErrorCode.FILE_NOT_ALLOWED),
        ("pipe", ErrorCode.FILE_NOT_ALLOWED),
        ("", ErrorCode.FILE_NOT_ALLOWED),
        ("sub", ErrorCode.FILE_NOT_ALLOWED),
        ("sub/new-home/token", ErrorCode.DIRECTORY_NOT_ALLOWED),
    ],
)
async def test_what_is_not_a_file_of_the_directory_is_refused(
    world: World, path: str, code: ErrorCode
) -> None:
    (world.project / "a.txt").touch()
    (world.project / "link").symlink_to(world.home / "token")
    (world.project / "up").symlink_to("..")
    (world.project / "loop").symlink_to("loop")
    (world.project / "hard").hardlink_to(world.home / "token")
    os.mkfifo(world.project / "pipe")
    new_home = world.project / "sub" / "new-home"
    new_home.mkdir(parents=True)
    for name in ("token", "jwt.key"):
        (new_home / name).write_text(SECRET)
    assert await world.refused(ReadFile(path=path)) is code


async def test_a_directory_outside_is_not_listed(world: World) -> None:
    (world.project / "up").symlink_to("..")
    for path in ("..", "up", "up/farsteer-home", "/"):
        assert await world.refused(ListDirectory(path=path)) is ErrorCode.FILE_NOT_ALLOWED


async def test_the_kernels_files_are_refused() -> None:
    everything = FileAccess(Path("/"), Path("/nowhere"), lambda _: None)
    for path in ("proc/self/environ", "dev/null", "sys"):
        with pytest.raises(Unprocessable) as error:
            everything.read(path, 0, 10)
        assert error.value.code is ErrorCode.FILE_NOT_ALLOWED


async def test_a_link_that_takes_the_place_of_a_directory_is_not_followed(world: World) -> None:
    (world.project / "sub").mkdir()
    (world.project / "sub" / "token").write_text("harmless")

    def exchange(_: Path) -> None:
        """What an agent might do between the check and the opening."""
        (world.project / "sub").rename(world.project / "aside")
        (world.project / "sub").symlink_to(world.home)

    files = FileAccess(world.project, Path("/nowhere"), exchange)
    with pytest.raises(Unprocessable) as error:
        files.read("sub/token", 0, 100)
    assert error.value.code in (ErrorCode.FILE_NOT_ALLOWED, ErrorCode.FILE_MISSING)


async def test_a_session_directory_that_became_a_link_is_refused(world: World, tmp_path: Path) -> None:
    world.project.rename(tmp_path / "aside")
    world.project.symlink_to(tmp_path / "aside")
    for command in (ListDirectory(), ReadFile(path="a"), ListChanges(), ReadDiff(path="a")):
        assert await world.refused(command) is ErrorCode.DIRECTORY_NOT_ALLOWED


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_what_the_user_may_not_read_is_a_clear_error(world: World) -> None:
    (world.project / "closed").touch(mode=0)
    (world.project / "locked").mkdir(mode=0)
    assert await world.refused(ReadFile(path="closed")) is ErrorCode.FILE_UNREADABLE
    assert await world.refused(ListDirectory(path="locked")) is ErrorCode.FILE_UNREADABLE


async def test_names_that_are_not_utf_8_are_shown(world: World) -> None:
    (Path(os.fsdecode(bytes(world.project) + b"/\xff.txt"))).touch()
    [entry] = (await world.ask(ListDirectory()))["entries"]
    assert entry["name"] == "\\xff.txt"


async def test_a_machine_that_runs_agents_as_another_user_shows_no_files(world: World) -> None:
    user = AgentUser("ann", 1000, 1000, "/home/ann", "/bin/sh")
    files = MachineFiles(world.home, SessionDirectories(world.home), user)
    state = SessionState(id="s", agent="demo", directory=str(world.project))
    for command in (ListDirectory(), ReadFile(path="a"), BrowseDirectories()):
        with pytest.raises(NotCapable):
            await files.answer(command, state)


async def test_files_that_do_not_answer_take_no_more_than_their_places() -> None:
    work, released = BlockingWork(places=2, seconds=0.05), threading.Event()
    for _ in range(3):
        with pytest.raises(TimedOut):
            await work.run(released.wait)
    released.set()
    patient = BlockingWork(places=1)
    assert await asyncio.gather(*(patient.run(lambda n=n: n) for n in range(5))) == [*range(5)]
    with pytest.raises(ZeroDivisionError):
        await patient.run(lambda: 1 // 0)


# -- changes


@pytest.fixture
def changed(repository: Path, tmp_path: Path) -> World:
    world = World(tmp_path)
    (repository / "a.txt").write_text("a\nb\n")
    (repository / "sub" / "b.txt").unlink()
    (repository / "new\nname.txt").write_text("one\ntwo")
    (repository / "staged.txt").write_text("x\n")
    git(repository, "add", "staged.txt")
    (repository / ".gitignore").write_text("ignored\n")
    (repository / "ignored").touch()
    return world


async def test_the_changes_against_the_last_commit(changed: World) -> None:
    found = await changed.ask(ListChanges())
    assert found["head"] == git(changed.project, "rev-parse", "HEAD")
    assert found["branch"] == git(changed.project, "branch", "--show-current")
    assert [(one["path"], one["status"], one["additions"], one["deletions"]) for one in found["files"]] == [
        (".gitignore", "untracked", None, None),
        ("a.txt", "modified", 2, 1),
        ("new\nname.txt", "untracked", None, None),
        ("staged.txt", "added", 1, 0),
        ("sub/b.txt", "deleted", 0, 1),
    ]
    assert found["truncated"] is False


async def test_a_rename_names_the_old_path(changed: World) -> None:
    (changed.project / "long.txt").write_text("line\n" * 50)
    git(changed.project, "add", "long.txt")
    git(changed.project, "commit", "-qm", "long")
    git(changed.project, "mv", "long.txt", "moved.txt")
    files = (await changed.ask(ListChanges()))["files"]
    [moved] = [one for one in files if one["status"] == "renamed"]
    assert (moved["path"], moved["oldPath"], moved["additions"]) == ("moved.txt", "long.txt", 0)
    diff = await changed.ask(ReadDiff(path="moved.txt", old_path="long.txt"))
    assert "rename from long.txt\nrename to moved.txt\n" in diff["patch"]


async def test_the_patch_of_a_file(changed: World) -> None:
    modified = await changed.ask(ReadDiff(path="a.txt"))
    assert modified["patch"].endswith("@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n")
    assert (modified["binary"], modified["truncated"]) == (False, False)
    assert "deleted file mode" in (await changed.ask(ReadDiff(path="sub/b.txt")))["patch"]
    assert (await changed.ask(ReadDiff(path=".git/config")))["patch"] == ""
    for unchanged in ("nothing", "ignored"):
        assert (await changed.ask(ReadDiff(path=unchanged)))["patch"] == ""
    untracked = await changed.ask(ReadDiff(path="new\nname.txt"))
    assert untracked["patch"].splitlines() == [
        'diff --git "a/new\\nname.txt" "b/new\\nname.txt"', "new file mode 100644", "--- /dev/null",
        '+++ "b/new\\nname.txt"', "@@ -0,0 +1,2 @@", "+one", "+two", "\\ No newline at end of file",
    ]  # fmt: skip


async def test_a_patch_is_one_that_git_applies(changed: World, tmp_path: Path) -> None:
    (changed.project / "plain.txt").write_text("one\n\ntwo\n")
    for path in ("a.txt", "plain.txt", "staged.txt"):
        patch = tmp_path / "patch"
        patch.write_text((await changed.ask(ReadDiff(path=path)))["patch"])
        git(changed.project, "apply", "--check", "--reverse", str(patch))


async def test_large_and_binary_changes(changed: World) -> None:
    (changed.project / "a.txt").write_text("some words\n" * 100_000)
    (changed.project / "big.txt").write_text("some words\n" * 100_000)
    for path in ("a.txt", "big.txt"):
        large = await changed.ask(ReadDiff(path=path))
        assert (large["truncated"], large["binary"]) == (True, False)
        assert len(large["patch"]) < 400_000
        assert large["patch"].endswith("words\n")
    (changed.project / "blob").write_bytes(b"\0\1\2")
    (changed.project / "a.txt").write_bytes(b"\0\1\2")
    for path in ("a.txt", "blob"):
        assert (await changed.ask(ReadDiff(path=path)))["binary"] is True


async def test_only_the_sessions_directory_is_compared(changed: World) -> None:
    (changed.project / "sub" / "c.txt").touch()
    top, changed.project = changed.project, changed.project / "sub"
    files = (await changed.ask(ListChanges()))["files"]
    assert [(one["path"], one["status"]) for one in files] == [("b.txt", "deleted"), ("c.txt", "untracked")]
    assert "-b" in (await changed.ask(ReadDiff(path="b.txt")))["patch"]
    for path in ("../a.txt", str(top / "a.txt"), "", "x/../../a.txt"):
        assert await changed.refused(ReadDiff(path=path)) is ErrorCode.FILE_NOT_ALLOWED


async def test_a_repository_without_a_commit(world: World) -> None:
    git(world.project, "init", "-q")
    (world.project / "staged").write_text("x\n")
    git(world.project, "add", "staged")
    (world.project / "other").write_text("y\n")
    found = await world.ask(ListChanges())
    assert found["head"] is None
    assert [(one["path"], one["status"]) for one in found["files"]] == [
        ("other", "untracked"), ("staged", "added"),
    ]  # fmt: skip
    assert "+x\n" in (await world.ask(ReadDiff(path="staged")))["patch"]


async def test_a_directory_without_a_repository(world: World) -> None:
    for command in (ListChanges(), ReadDiff(path="a")):
        assert await world.refused(command) is ErrorCode.NOT_A_REPOSITORY


async def test_conflicts_are_named(changed: World) -> None:
    where = changed.project
    git(where, "add", "-A")
    git(where, "commit", "-qm", "ours")
    git(where, "checkout", "-qb", "theirs", "HEAD~")
    (where / "a.txt").write_text("theirs")
    git(where, "commit", "-qam", "theirs")
    with pytest.raises(Exception, match="merge"):
        git(where, "merge", "-q", "-")
    files = (await changed.ask(ListChanges()))["files"]
    assert [one["status"] for one in files if one["path"] == "a.txt"] == ["conflicted"]


async def test_nothing_of_the_repository_runs(changed: World, tmp_path: Path) -> None:
    where, ran = changed.project, tmp_path / "ran"
    (where / ".gitattributes").write_text("* diff=evil filter=evil\n")
    program = f"touch {ran}; cat"
    for key, value in (
        ("diff.external", program), ("diff.evil.textconv", program), ("diff.evil.command", program),
        ("filter.evil.clean", program), ("filter.evil.process", program), ("core.fsmonitor", program),
        ("core.pager", program), ("diff.submodule", "diff"),
    ):  # fmt: skip
        git(where, "config", key, value)
    inner = where / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "f").write_text("1")
    git(inner, "add", "f")
    git(inner, "commit", "-qm", "inner")
    git(
        where,
        "-c",
        "core.fsmonitor=false",
        "-c",
        "filter.evil.clean=",
        "-c",
        "filter.evil.process=",
        "add",
        "inner",
    )
    git(inner, "config", "core.fsmonitor", program)
    (inner / "f").write_text("2")
    ran.unlink(missing_ok=True)
    files = (await changed.ask(ListChanges()))["files"]
    assert {"a.txt", "inner"} <= {one["path"] for one in files}
    for one in files:
        await changed.ask(ReadDiff(path=one["path"]))
    assert not ran.exists()


async def test_a_repository_that_names_another_place_for_its_files_shows_nothing_of_it(
    world: World, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "private.txt").write_text(SECRET)
    git(world.project, "init", "-q")
    for place in (elsewhere, tmp_path):
        git(world.project, "config", "core.worktree", str(place))
        assert await world.refused(ListChanges()) in (ErrorCode.NOT_A_REPOSITORY, ErrorCode.GIT_FAILED)
        for path in ("private.txt", "elsewhere/private.txt"):
            await world.refused(ReadDiff(path=path))


# -- browsing


async def test_directories_are_browsed_but_not_the_home(world: World, tmp_path: Path) -> None:
    (world.project / ".git").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "to-home").symlink_to(world.home)
    found = await world.ask(BrowseDirectories(path=str(tmp_path)))
    assert [(one["name"], one["allowed"], one["repository"]) for one in found["directories"]] == [
        ("project", True, True)
    ]
    assert found["path"] == str(tmp_path)
    assert found["parent"] == str(tmp_path.parent)
    assert found["allowed"] is False, "it contains a home"
    for path in (world.home, tmp_path / "to-home", "/proc", "/proc/self", "relative", "/\0"):
        assert await world.refused(BrowseDirectories(path=str(path))) is ErrorCode.DIRECTORY_NOT_ALLOWED
    for path in (tmp_path / "nothing", tmp_path / "file"):
        assert await world.refused(BrowseDirectories(path=str(path))) is ErrorCode.DIRECTORY_MISSING


async def test_nothing_outside_of_the_roots_is_shown(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / "one" / "out").symlink_to(tmp_path / "three")
    world = World(tmp_path, (str(tmp_path / "one"), str(tmp_path / "two")))
    roots = await world.ask(BrowseDirectories())
    assert [one["path"] for one in roots["directories"]] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert (roots["path"], roots["parent"], roots["allowed"]) == (None, None, False)
    inside = await world.ask(BrowseDirectories(path=str(tmp_path / "one")))
    assert [one["name"] for one in inside["directories"]] == ["inner"]
    assert inside["parent"] is None
    for path in (tmp_path, tmp_path / "three", tmp_path / "one" / "out", tmp_path / "one" / ".."):
        assert await world.refused(BrowseDirectories(path=str(path))) is ErrorCode.DIRECTORY_NOT_ALLOWED


async def test_without_a_path_or_roots_browsing_begins_at_home(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = await world.ask(BrowseDirectories())
    assert found["path"] == str(tmp_path)
    assert (await world.ask(BrowseDirectories(path="~/project")))["path"] == str(world.project)
