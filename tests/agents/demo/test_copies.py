"""Copies of files: what is restored, what is skipped, and what is reported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.demo import copies as module
from farsteer.agents.demo.copies import FileCopies, copies_path
from farsteer.agents.demo.history import History

ID = "11111111-1111-4111-8111-111111111111"
FORK = "22222222-2222-4222-8222-222222222222"


class Project:
    """A project directory with a conversation that changes its files."""

    def __init__(self, home: Path, history: History | None = None, session: str = ID) -> None:
        self.home = home
        self.state, self.directory = home / "state", home / "project"
        self.state.mkdir(exist_ok=True)
        self.directory.mkdir(exist_ok=True)
        self.folder = Path(copies_path(str(self.state), session))
        self.history = history or History.create(str(self.state), session, str(self.directory))
        self.copies = FileCopies(str(self.folder), str(self.directory), self.history)

    def add_message(self, message: str) -> None:
        self.history.add({"role": "user", "anchor": message, "text": "…"})

    def add_answer(self, anchor: str) -> None:
        self.history.add({"role": "agent", "anchor": anchor, "text": "…"})

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        self.copies.save(str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def delete(self, name: str) -> None:
        self.copies.save(str(self.directory / name))
        (self.directory / name).unlink()

    def restore(self, message: str, after: str | None = None) -> tuple[Any, ...]:
        found = self.copies.restore(message, after)
        return found["status"], found["restored"], found["skipped"]

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.directory)): path.read_text()
            for path in self.directory.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_files_are_restored_to_each_message(project: Project) -> None:
    (project.directory / "old.txt").write_text("old")
    project.add_message("m1")
    project.write("old.txt", "one")
    project.write("old.txt", "one and a half")
    project.write("deep/new.txt", "one")
    project.add_message("m2")
    project.delete("old.txt")
    project.write("deep/new.txt", "two")
    assert project.restore("m2") == ("full", ["old.txt", "deep/new.txt"], [])
    assert project.files() == {"old.txt": "one and a half", "deep/new.txt": "one"}
    assert project.restore("m1") == ("full", ["old.txt", "deep/new.txt"], [])
    assert project.files() == {"old.txt": "old"}


def test_permissions_are_restored_and_copies_are_private(project: Project) -> None:
    script = project.directory / "run.sh"
    script.write_text("echo")
    script.chmod(0o750)
    project.add_message("m1")
    project.delete("run.sh")
    assert project.folder.stat().st_mode & 0o777 == 0o700
    assert [copy.stat().st_mode & 0o777 for copy in project.folder.iterdir()] == [0o600]
    project.restore("m1")
    assert script.stat().st_mode & 0o777 == 0o750


def test_restoring_to_a_message_without_changes_is_full(project: Project) -> None:
    project.add_message("m1")
    assert project.restore("m1") == ("full", [], [])


def test_a_message_with_another_id_is_found_by_the_anchor_before_it(project: Project) -> None:
    project.add_message("u1")
    project.write("a.txt", "one")
    project.add_answer("a1")
    project.add_message("u2")
    project.write("a.txt", "two")
    assert project.restore("another id", "a1")[0] == "full"
    assert project.files() == {"a.txt": "one"}
    assert project.restore("another id", None)[0] == "full"
    assert project.files() == {}


def test_an_unknown_message_restores_nothing(project: Project) -> None:
    project.add_message("m1")
    project.write("a.txt", "one")
    assert project.restore("m2", "nowhere") == ("failed", [], [])
    assert project.restore("m2", "m1") == ("failed", [], []), "no message comes after that one"
    assert project.files() == {"a.txt": "one"}


def test_a_link_is_skipped_and_reported(project: Project) -> None:
    outside = project.home / "outside.txt"
    outside.write_text("unrelated")
    project.add_message("m1")
    project.write("a.txt", "one")
    project.write("way/b.txt", "one")
    (project.directory / "a.txt").unlink()
    (project.directory / "a.txt").symlink_to(outside)
    (project.directory / "way").rename(project.home / "moved")
    (project.directory / "way").symlink_to(project.home / "moved")
    project.write("c.txt", "one")
    assert project.restore("m1") == ("partial", ["c.txt"], ["a.txt", "way/b.txt"])
    assert project.copies.restore("m1", None)["reason"] == "a.txt is a link; way/b.txt is a link"
    assert outside.read_text() == "unrelated"
    assert (project.home / "moved" / "b.txt").exists()


def test_a_path_outside_of_the_directory_is_skipped(project: Project) -> None:
    project.add_message("m1")
    (project.home / "victim.txt").write_text("unrelated")
    project.history.add({"role": "copy", "path": "../victim.txt"})
    project.history.add({"role": "copy", "path": str(project.home / "victim.txt")})
    assert project.restore("m1")[0] == "partial"
    assert (project.home / "victim.txt").read_text() == "unrelated"


def test_a_file_that_is_too_large_is_reported(project: Project) -> None:
    large = project.directory / "large.bin"
    large.write_bytes(b"x" * (module.MAX_FILE_BYTES + 1))
    project.add_message("m1")
    project.delete("large.bin")
    project.write("a.txt", "one")
    assert project.restore("m1") == ("partial", ["a.txt"], ["large.bin"])
    assert not project.folder.exists() or list(project.folder.iterdir()) == []


def test_the_total_size_of_copies_is_bounded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOTAL_BYTES", 10)
    for name in ("a", "b", "c"):
        (project.directory / name).write_text(name * 4)
    project.add_message("m1")
    for name in ("a", "b", "c"):
        project.write(name, "new")
    assert project.restore("m1") == ("partial", ["a", "b"], ["c"])
    again = FileCopies(str(project.folder), str(project.directory), project.history)
    project.add_message("m2")
    (project.directory / "d").write_text("dddd")
    again.save(str(project.directory / "d"))
    assert project.history.records[-1]["skipped"], "copies of earlier launches count too"


def test_only_regular_files_are_copied(project: Project) -> None:
    os.mkfifo(project.directory / "pipe")
    project.add_message("m1")
    project.delete("pipe")
    assert project.restore("m1") == ("partial", [], ["pipe"])


def test_restoring_fails_without_the_copies(project: Project) -> None:
    (project.directory / "a.txt").write_text("old")
    project.add_message("m1")
    project.write("a.txt", "new")
    project.copies.delete_all()
    assert project.restore("m1") == ("failed", [], ["a.txt"])
    assert project.files() == {"a.txt": "new"}
    project.write("b.txt", "new")
    assert project.restore("m1") == ("partial", ["b.txt"], ["a.txt"])


def test_copies_survive_a_restart(project: Project) -> None:
    (project.directory / "a.txt").write_text("old")
    project.add_message("m1")
    project.write("a.txt", "new")
    again = Project(project.home, History.resume(str(project.state), ID))
    assert again.restore("m1") == ("full", ["a.txt"], [])
    assert again.files() == {"a.txt": "old"}


def test_a_cut_keeps_copies_for_earlier_messages(project: Project) -> None:
    """After a rewind without restoring files, the files are still those of the removed part."""
    (project.directory / "a.txt").write_text("old")
    project.add_message("m1")
    project.add_answer("a1")
    project.add_message("m2")
    project.write("a.txt", "two")
    again = Project(project.home, History.resume(str(project.state), ID, "a1"))
    again.add_message("m3")
    again.write("a.txt", "three")
    assert again.restore("m3") == ("full", ["a.txt"], [])
    assert again.files() == {"a.txt": "two"}
    assert again.restore("m1") == ("full", ["a.txt"], [])
    assert again.files() == {"a.txt": "old"}


def test_a_fork_restores_its_own_changes_and_reports_those_of_its_source(project: Project) -> None:
    project.add_message("m1")
    project.write("a.txt", "source")
    project.add_answer("a1")
    fork = Project(project.home, History.fork(str(project.state), ID, FORK), FORK)
    fork.add_message("m2")
    fork.write("a.txt", "fork")
    fork.write("b.txt", "fork")
    assert fork.restore("m2") == ("full", ["a.txt", "b.txt"], [])
    assert fork.files() == {"a.txt": "source"}
    fork.write("b.txt", "fork")
    assert fork.restore("m1") == ("partial", ["b.txt"], ["a.txt"])
    assert fork.files() == {"a.txt": "source"}
    assert project.restore("m1") == ("full", ["a.txt"], []), "the source keeps its copies"
