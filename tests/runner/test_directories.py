"""No session runs where it would find Farsteer's credentials, or outside the roots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farsteer.core.errors import ErrorCode, Unprocessable
from farsteer.runner.directories import SessionDirectories


def refusal(directories: SessionDirectories, asked: Path | str) -> Unprocessable:
    with pytest.raises(Unprocessable) as refused:
        directories.check(str(asked))
    return refused.value


def make_home(path: Path, *names: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name in names or ("runner.lock", "runner.db"):
        (path / name).touch()
    return path


def test_a_directory_is_returned_as_its_real_path(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    assert SessionDirectories().check(str(tmp_path / "link")) == project
    inside = SessionDirectories(roots=(str(tmp_path),))
    assert inside.check(str(project / ".." / "project")) == project


def test_what_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    anywhere = SessionDirectories()
    assert refusal(anywhere, tmp_path / "missing").code is ErrorCode.DIRECTORY_MISSING
    assert refusal(anywhere, tmp_path / "file").code is ErrorCode.DIRECTORY_MISSING
    for asked in ("relative/path", "-C", f"{tmp_path}\0"):
        assert refusal(anywhere, asked).code is ErrorCode.DIRECTORY_NOT_ALLOWED


def test_no_path_leads_out_of_the_roots(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "inside-not"
    inside.mkdir()
    outside.mkdir()
    (inside / "way-out").symlink_to(outside)
    directories = SessionDirectories(roots=(str(inside),))
    assert directories.check(str(inside)) == inside
    for asked in (outside, inside / "way-out", inside / ".." / "inside-not"):
        assert refusal(directories, asked).code is ErrorCode.DIRECTORY_NOT_ALLOWED


def test_a_session_cannot_run_in_the_home_of_the_runner_or_below_or_above_it(
    home: Path, project: Path
) -> None:
    directories = SessionDirectories(home)
    below = home / "agents" / "demo"
    below.mkdir(parents=True)
    for asked in (home, below, home.parent, home.parent.parent, Path("/")):
        refused = refusal(directories, asked)
        assert refused.code is ErrorCode.DIRECTORY_NOT_ALLOWED
        assert refused.status == 422
        assert str(home) in refused.message
    assert "FARSTEER_HOME" in refusal(directories, home.parent).message
    assert directories.check(str(project)) == project
    beside = home.parent / "project"
    beside.mkdir()
    assert directories.check(str(beside)) == beside


def test_no_spelling_of_the_home_is_allowed(home: Path, project: Path) -> None:
    (project / "link").symlink_to(home)
    directories = SessionDirectories(home)
    for asked in ("~", "~/.farsteer", project / "link", project / "link" / "..", f"{home}/./.", f"//{home}/"):
        assert refusal(directories, asked).code is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert not directories.allows(str(home))
    assert not directories.allows("")


def test_a_home_that_is_reached_by_a_link_is_protected_where_it_really_is(home: Path, tmp_path: Path) -> None:
    real = tmp_path / "disk" / "farsteer"
    real.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(real)
    directories = SessionDirectories(link)
    for asked in (link, real, real.parent):
        assert refusal(directories, asked).code is ErrorCode.DIRECTORY_NOT_ALLOWED


def test_the_homes_of_this_users_commands_are_protected_too(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "runner"
    own.mkdir()
    directories = SessionDirectories(own)
    assert str(home) in refusal(directories, home.parent).message, "it is in $FARSTEER_HOME"
    monkeypatch.delenv("FARSTEER_HOME")
    assert str(home) in refusal(directories, home.parent).message, "it is ~/.farsteer"
    home.rmdir()
    assert directories.check(str(home.parent)) == home.parent


@pytest.mark.parametrize(
    "names", [("hub.lock", "hub.db"), ("runner.lock", "runner.db"), ("token", "jwt.key")]
)
def test_a_session_cannot_run_in_the_home_of_another_hub_or_runner(
    names: tuple[str, str], home: Path, tmp_path: Path
) -> None:
    other = make_home(tmp_path / "srv" / "hub", *names)
    (other / "agents").mkdir()
    directories = SessionDirectories(home)
    for asked in (other, other / "agents"):
        assert refusal(directories, asked).code is ErrorCode.DIRECTORY_NOT_ALLOWED
    theirs = make_home(tmp_path / "alice" / ".farsteer", *names)
    assert str(theirs) in refusal(directories, tmp_path / "alice").message


def test_a_project_with_a_file_of_the_same_name_is_no_home(home: Path, project: Path) -> None:
    for name in ("hub.db", "runner.db", "token"):
        (project / name).touch()
    assert SessionDirectories(home).check(str(project)) == project


def test_a_root_that_contains_the_home_does_not_open_it(home: Path) -> None:
    directories = SessionDirectories(home, (str(home.parent), str(home)))
    assert refusal(directories, home).code is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert refusal(directories, home.parent).code is ErrorCode.DIRECTORY_NOT_ALLOWED


def test_a_link_that_replaces_the_directory_of_a_session_is_noticed(tmp_path: Path, project: Path) -> None:
    directories = SessionDirectories()
    directories.check_again(str(project))
    other = tmp_path / "other"
    other.mkdir()
    project.rmdir()
    project.symlink_to(other)
    with pytest.raises(Unprocessable, match="has become a link"):
        directories.check_again(str(project))


def test_a_root_that_is_replaced_by_a_link_leads_nowhere(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    (other / "sub").mkdir(parents=True)
    directories = SessionDirectories(roots=(str(root),))
    root.rmdir()
    root.symlink_to(other)
    assert refusal(directories, root / "sub").code is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert not directories.allows(os.path.join(root, "sub"))
