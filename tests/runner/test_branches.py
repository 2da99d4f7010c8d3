"""Merging, rebasing and moving branches, in real repositories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farsteer.core.errors import Conflict, ErrorCode, Unprocessable
from farsteer.runner.branches import find_checkout, local_changes, merge, move_branch, own_commits, rebase
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.git import GitRepository
from tests.runner.test_worktrees import hostile
from tests.support.repositories import commit, git, make_repository, snapshot

pytestmark = pytest.mark.slow

ANYWHERE = SessionDirectories()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = make_repository(tmp_path / "project")
    git(path, "branch", "work")
    return path


def on(project: Path, branch: str, message: str, **files: str) -> str:
    """Commit to a branch that is not checked out."""
    place = project.parent / "elsewhere"
    git(project, "worktree", "add", "-q", str(place), branch)
    made = commit(place, message, **files)
    git(project, "worktree", "remove", str(place))
    return made


async def test_two_branches_that_differ_are_merged_without_touching_a_file(project: Path) -> None:
    theirs = on(project, "work", "theirs", **{"b.txt": "theirs\n"})
    ours = commit(project, "ours", **{"a.txt": "ours\n"})
    before = snapshot(project)
    result = await merge(await GitRepository.find(project), ours, theirs, "Merge work\n")
    assert result.commits == 1
    assert git(project, "show", f"{result.commit}:a.txt") == "ours"
    assert git(project, "show", f"{result.commit}:b.txt") == "theirs"
    assert git(project, "rev-list", "--parents", "-1", result.commit).split()[1:] == [ours, theirs]
    assert snapshot(project) == before


async def test_a_branch_that_is_behind_is_moved_and_one_that_is_ahead_stays(project: Path) -> None:
    repository = await GitRepository.find(project)
    old = git(project, "rev-parse", "main")
    new = on(project, "work", "second", **{"c.txt": "c\n"})
    assert await merge(repository, old, new, "m") == (new, 1)
    assert await merge(repository, new, old, "m") == (new, 0)


async def test_a_conflict_names_its_files_and_leaves_everything_as_it_was(project: Path) -> None:
    odd = os.fsdecode(b"new\nline \xff")
    theirs = on(project, "work", "theirs", **{"a.txt": "theirs\n", odd: "theirs\n"})
    ours = commit(project, "ours", **{"a.txt": "ours\n", odd: "ours\n"})
    (project / "untracked").write_text("mine")
    before = snapshot(project)
    repository = await GitRepository.find(project)
    for attempt in (merge(repository, ours, theirs, "m"), rebase(repository, ours, theirs)):
        with pytest.raises(Conflict) as refused:
            await attempt
        assert refused.value.code is ErrorCode.MERGE_CONFLICT
        assert sorted(refused.value.details["files"]) == ["a.txt", "new\nline \\xff"]
    assert snapshot(project) == before


async def test_a_rebase_copies_the_commits_with_their_authors_and_messages(project: Path) -> None:
    first = on(project, "work", "a subject\n\nand a body\n", **{"c.txt": "c\n"})
    same = on(project, "work", "the same as on main", **{"d.txt": "d\n"})
    last = on(project, "work", "last", **{"b.txt": "changed\n"})
    commit(project, "on main", **{"d.txt": "d\n"})
    onto = commit(project, "more", **{"a.txt": "main\n"})
    result = await rebase(await GitRepository.find(project), onto, last)
    assert result.commits == 2
    assert git(project, "rev-parse", f"{result.commit}~2") == onto
    shown = ("log", "--format=%an %ae %at %B", "-1")
    assert git(project, *shown, f"{result.commit}~1") == git(project, *shown, first)
    assert git(project, *shown, result.commit) == git(project, *shown, last)
    assert same not in git(project, "rev-list", result.commit)
    assert git(project, "ls-tree", "--name-only", result.commit).split() == [
        "a.txt",
        "b.txt",
        "c.txt",
        "d.txt",
    ]
    git(project, "fsck", "--strict", result.commit)


async def test_moving_a_branch_takes_the_files_of_its_checkout_along(project: Path) -> None:
    old = git(project, "rev-parse", "main")
    new = on(project, "work", "second", **{"a.txt": "new\n", "c.txt": "c\n"})
    (project / "b.txt").write_text("a change in no commit")
    repository = await GitRepository.find(project)
    checkout = await find_checkout(repository, "main")
    assert checkout == project
    for _ in range(2):
        await move_branch(repository, "main", old, new, ANYWHERE, checkout)
    assert git(project, "rev-parse", "main") == new
    assert (project / "a.txt").read_text() == "new\n"
    assert (project / "c.txt").read_text() == "c\n"
    assert git(project, "status", "--porcelain") == "M b.txt"


async def test_a_change_that_would_be_overwritten_is_named_and_kept(project: Path) -> None:
    old = git(project, "rev-parse", "main")
    new = on(project, "work", "second", **{"a.txt": "new\n", "c.txt": "c\n"})
    (project / "a.txt").write_text("mine")
    (project / "c.txt").write_text("mine too")
    before = snapshot(project)
    repository = await GitRepository.find(project)
    with pytest.raises(Conflict) as refused:
        await move_branch(repository, "main", old, new, ANYWHERE, project)
    assert refused.value.code is ErrorCode.WORKTREE_CHANGES
    assert refused.value.details["files"] == ["a.txt", "c.txt"]
    assert snapshot(project) == before


async def test_a_branch_that_somebody_else_moved_is_not_moved(project: Path) -> None:
    old = git(project, "rev-parse", "main")
    new = on(project, "work", "second", **{"c.txt": "c\n"})
    commit(project, "meanwhile", **{"b.txt": "meanwhile\n"})
    before = snapshot(project)
    with pytest.raises(Conflict, match="somebody else"):
        await move_branch(await GitRepository.find(project), "main", old, new, ANYWHERE, project)
    assert snapshot(project) == before


async def test_a_move_that_was_killed_after_the_files_is_finished_by_repeating_it(project: Path) -> None:
    old = git(project, "rev-parse", "main")
    new = on(project, "work", "second", **{"a.txt": "new\n", "c.txt": "c\n"})
    git(project, "read-tree", "-m", "-u", old, new)
    assert git(project, "rev-parse", "main") == old
    await move_branch(await GitRepository.find(project), "main", old, new, ANYWHERE, project)
    assert git(project, "rev-parse", "main") == new
    assert git(project, "status", "--porcelain") == ""


async def test_nothing_that_a_repository_configures_runs_when_it_is_merged(
    project: Path, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    command = hostile(project, marker)
    theirs = on(
        project,
        "work",
        "theirs",
        **{"a.txt": "one\ntwo\ntheirs\n", ".gitattributes": "*.txt merge=x filter=x\n"},
    )
    ours = commit(
        project, "ours", **{"a.txt": "ours\ntwo\nthree\n", ".gitattributes": "*.txt merge=x filter=x\n"}
    )
    for hook in ("post-merge", "post-rewrite", "reference-transaction", "post-index-change", "pre-rebase"):
        (project / ".git" / "hooks" / hook).write_text(Path(command).read_text())
        (project / ".git" / "hooks" / hook).chmod(0o755)
    for key in ("merge.x.driver", "filter.x.clean", "filter.x.smudge", "gpg.program", "core.fsmonitor"):
        git(project, "config", key, command)
    for key in ("commit.gpgSign", "merge.verifySignatures", "log.showSignature", "merge.renormalize"):
        git(project, "config", key, "true")
    marker.unlink(missing_ok=True)
    repository = await GitRepository.find(project)
    with pytest.raises(Conflict) as refused:
        await merge(repository, ours, theirs, "m")
    assert refused.value.details["files"] == ["a.txt"]
    with pytest.raises(Conflict):
        await rebase(repository, ours, theirs)
    assert await local_changes(repository) == []
    new = on(project, "work", "more", **{"c.txt": "c\n"})
    assert marker.exists(), "git by itself runs it"
    marker.unlink()
    assert (await own_commits(repository, "work", new))[1] == 2
    await move_branch(repository, "work", new, theirs, ANYWHERE, await find_checkout(repository, "work"))
    assert not marker.exists()


async def test_commits_of_a_branch_alone_are_its_own_until_something_else_has_them(project: Path) -> None:
    repository = await GitRepository.find(project)
    new = on(project, "work", "only here", **{"c.txt": "c\n"})
    assert await own_commits(repository, "work", new) == ([f"{new[:7]} only here"], 1)
    git(project, "update-ref", "refs/remotes/origin/work", new)
    assert await own_commits(repository, "work", new) == ([], 0)


async def test_a_checkout_outside_the_roots_is_not_changed(project: Path, tmp_path: Path) -> None:
    old = git(project, "rev-parse", "main")
    new = on(project, "work", "second", **{"c.txt": "c\n"})
    roots = SessionDirectories(roots=(str(tmp_path / "other"),))
    with pytest.raises(Unprocessable) as refused:
        await move_branch(await GitRepository.find(project), "main", old, new, roots, project)
    assert refused.value.code is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert not (project / "c.txt").exists()
