from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from farsteer.core.errors import ErrorCode, Unprocessable
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.worktrees import create_worktree, remove_worktree

ANYWHERE = SessionDirectories()


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
    worktree = await create_worktree(repository / "sub", "Fix the Login!", ANYWHERE)
    assert Path(worktree.path) == repository.parent / "project-worktrees" / "fix-the-login"
    assert (Path(worktree.path) / "a.txt").read_text() == "a"
    assert git(Path(worktree.path), "branch", "--show-current") == worktree.branch == "farsteer/fix-the-login"


async def test_a_taken_name_gets_a_number(repository: Path) -> None:
    first = await create_worktree(repository, "fix", ANYWHERE)
    second = await create_worktree(repository, "fix", ANYWHERE)
    assert (first.name, second.name) == ("fix", "fix-2")


async def test_a_name_that_looks_like_an_option_or_a_path_is_only_a_name(repository: Path) -> None:
    worktree = await create_worktree(repository, "--force ../../etc", ANYWHERE)
    assert Path(worktree.path).parent == repository.parent / "project-worktrees"


async def test_removing_undoes_creating(repository: Path) -> None:
    worktree = await create_worktree(repository, None, ANYWHERE)
    await remove_worktree(worktree)
    assert not Path(worktree.path).exists()
    assert worktree.branch not in git(repository, "branch", "--list")


@pytest.mark.slow
async def test_outside_a_repository_there_is_no_worktree(tmp_path: Path) -> None:
    with pytest.raises(Unprocessable) as refused:
        await create_worktree(tmp_path, "x", ANYWHERE)
    assert refused.value.code is ErrorCode.NOT_A_REPOSITORY


# -- hostile repositories: an agent may have written all of this into the repository that it works in


def hostile(path: Path, marker: Path) -> str:
    """Return a command that leaves `marker`, as a script that a configuration can name."""
    script = path.parent / f"leave-{marker.name}"
    script.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat\n")
    script.chmod(0o755)
    return str(script)


HOSTILE_KEYS = (
    "core.fsmonitor", "core.sshCommand", "core.askPass", "core.editor", "core.pager", "core.gitProxy",
    "core.alternateRefsCommand", "credential.helper", "gpg.program", "diff.external", "filter.x.smudge",
    "filter.x.process", "filter.x.clean", "filter.X = y.smudge", "remote.origin.uploadpack",
)  # fmt: skip


async def test_nothing_that_a_repository_configures_runs_when_a_worktree_is_made(repository: Path) -> None:
    marker = repository.parent / "marker"
    command = hostile(repository, marker)
    hooks = repository / ".git" / "hooks"
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-commit"):
        (hooks / name).write_text(Path(command).read_text())
        (hooks / name).chmod(0o755)
    for key in HOSTILE_KEYS:
        git(repository, "config", key, command)
    git(repository, "config", "filter.x.required", "true")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text('*.txt filter=x\nb.txt filter="X = y"\n')
    marker.unlink(missing_ok=True)
    worktree = await create_worktree(repository, "hostile", ANYWHERE)
    assert (Path(worktree.path) / "a.txt").read_text() == "a"
    await remove_worktree(worktree)
    assert not Path(worktree.path).exists()
    assert not marker.exists()
    git(repository, "config", "filter.x.required", "false")
    git(repository, "worktree", "add", "-q", "../plain")
    assert marker.exists(), "git by itself runs it"


async def test_a_hooks_path_of_the_repository_is_not_used(repository: Path) -> None:
    marker = repository.parent / "marker"
    hooks = repository / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    (hooks / "post-checkout").chmod(0o755)
    git(repository, "config", "core.hooksPath", str(hooks))
    await create_worktree(repository, "hooks", ANYWHERE)
    assert not marker.exists()


async def test_a_partial_clone_fetches_nothing_with_a_command_of_its_own(repository: Path) -> None:
    marker = repository.parent / "marker"
    command = hostile(repository, marker)
    blob = git(repository, "rev-parse", "HEAD:a.txt")
    git(repository, "config", "core.repositoryFormatVersion", "1")
    git(repository, "config", "extensions.partialClone", "origin")
    git(repository, "config", "remote.origin.promisor", "true")
    git(repository, "config", "remote.origin.url", f"ext::{command}")
    git(repository, "config", "protocol.ext.allow", "always")
    git(repository, "config", "protocol.allow", "always")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(Unprocessable) as refused:
        await create_worktree(repository, "partial", ANYWHERE)
    assert refused.value.code is ErrorCode.WORKTREE_FAILED
    assert not marker.exists()


async def test_variables_and_settings_of_the_user_do_not_reach_git(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "marker"
    command = hostile(repository, marker)
    user = tmp_path / "user"
    user.mkdir()
    (user / ".gitconfig").write_text(f'[core]\nfsmonitor = {command}\n[filter "lfs"]\nsmudge = {command}\n')
    (repository / ".git" / "info" / "attributes").write_text("*.txt filter=lfs\n")
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    worktree = await create_worktree(repository, "variables", ANYWHERE)
    assert (Path(worktree.path) / "a.txt").read_text() == "a"
    assert not marker.exists()
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("name", ["--upload-pack=touch x", "../../..", "-b", "/etc", "a\0b", "\n", "é" * 300])
async def test_no_name_of_a_worktree_is_an_option_or_leads_elsewhere(repository: Path, name: str) -> None:
    worktree = await create_worktree(repository, name, ANYWHERE)
    assert Path(worktree.path).parent == repository.parent / "project-worktrees"
    assert worktree.branch == f"farsteer/{worktree.name}"


async def test_a_worktree_outside_the_roots_is_refused_and_not_made(repository: Path) -> None:
    roots = SessionDirectories(roots=(str(repository),))
    with pytest.raises(Unprocessable) as refused:
        await create_worktree(repository, "x", roots)
    assert refused.value.code is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert not (repository.parent / "project-worktrees").exists()
    assert "farsteer/x" not in git(repository, "branch", "--list")


async def test_a_link_does_not_carry_a_worktree_out_of_the_roots(repository: Path, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    moved = repository.rename(inside / "project")
    (inside / "project-worktrees").symlink_to(outside)
    with pytest.raises(Unprocessable) as refused:
        await create_worktree(moved, "x", SessionDirectories(roots=(str(inside),)))
    assert refused.value.code is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert [*outside.iterdir()] == []


async def test_a_repository_whose_files_point_outside_the_roots_is_refused(
    repository: Path, tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "sub" / ".git").write_text(f"gitdir: {repository / '.git'}\n")
    roots = SessionDirectories(roots=(str(inside),))
    with pytest.raises(Unprocessable) as refused:
        await create_worktree(inside / "sub", "x", roots)
    assert refused.value.code is ErrorCode.DIRECTORY_NOT_ALLOWED
    git(repository, "config", "core.worktree", str(tmp_path))
    with pytest.raises(Unprocessable):
        await create_worktree(inside / "sub", "x", roots)
    assert "farsteer/x" not in git(repository, "branch", "--list")
