from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from farsteer.core.errors import ErrorCode, Unprocessable
from farsteer.runner.worktrees import create_worktree, remove_worktree


def git(where: Path, *args: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    done = subprocess.run(["git", *identity, *args], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    git(path, "init", "-q")
    (path / "a.txt").write_text("a")
    (path / "sub").mkdir()
    (path / "sub" / "b.txt").write_text("b")
    git(path, "add", ".")
    git(path, "commit", "-qm", "first")
    return path


async def test_a_worktree_is_beside_the_repository_on_its_own_branch(repository: Path) -> None:
    worktree = await create_worktree(repository / "sub", "Fix the Login!")
    assert Path(worktree.path) == repository.parent / "project-worktrees" / "fix-the-login"
    assert (Path(worktree.path) / "a.txt").read_text() == "a"
    assert git(Path(worktree.path), "branch", "--show-current") == worktree.branch == "farsteer/fix-the-login"


async def test_a_taken_name_gets_a_number(repository: Path) -> None:
    first = await create_worktree(repository, "fix")
    second = await create_worktree(repository, "fix")
    assert (first.name, second.name) == ("fix", "fix-2")


async def test_a_name_that_looks_like_an_option_or_a_path_is_only_a_name(repository: Path) -> None:
    worktree = await create_worktree(repository, "--force ../../etc")
    assert Path(worktree.path).parent == repository.parent / "project-worktrees"


async def test_removing_undoes_creating(repository: Path) -> None:
    worktree = await create_worktree(repository, None)
    await remove_worktree(worktree)
    assert not Path(worktree.path).exists()
    assert worktree.branch not in git(repository, "branch", "--list")


@pytest.mark.slow
async def test_outside_a_repository_there_is_no_worktree(tmp_path: Path) -> None:
    with pytest.raises(Unprocessable) as refused:
        await create_worktree(tmp_path, "x")
    assert refused.value.code is ErrorCode.NOT_A_REPOSITORY
