"""Copies of files: what goes back, what is left alone, and what is said about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.demo import copies as module
from farsteer.agents.demo.copies import Copies, folder_of
from farsteer.agents.demo.history import History

ID = "11111111-1111-4111-8111-111111111111"
FORK = "22222222-2222-4222-8222-222222222222"


class Desk:
    """An agent's view: it hears messages and changes files."""

    def __init__(self, home: Path, history: History | None = None, session: str = ID) -> None:
        self.home = home
        self.state, self.directory = home / "state", home / "project"
        self.state.mkdir(exist_ok=True)
        self.directory.mkdir(exist_ok=True)
        self.folder = Path(folder_of(str(self.state), session))
        self.history = history or History.create(str(self.state), session, str(self.directory))
        self.copies = Copies(str(self.folder), str(self.directory), self.history)

    def hear(self, message: str) -> None:
        self.history.add({"role": "user", "anchor": message, "text": "…"})

    def say(self, anchor: str) -> None:
        self.history.add({"role": "agent", "anchor": anchor, "text": "…"})

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        self.copies.keep(str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def delete(self, name: str) -> None:
        self.copies.keep(str(self.directory / name))
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
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_files_are_what_they_were_at_each_message(desk: Desk) -> None:
    (desk.directory / "old.txt").write_text("old")
    desk.hear("m1")
    desk.write("old.txt", "one")
    desk.write("old.txt", "one and a half")
    desk.write("deep/new.txt", "one")
    desk.hear("m2")
    desk.delete("old.txt")
    desk.write("deep/new.txt", "two")
    assert desk.restore("m2") == ("full", ["old.txt", "deep/new.txt"], [])
    assert desk.files() == {"old.txt": "one and a half", "deep/new.txt": "one"}
    assert desk.restore("m1") == ("full", ["old.txt", "deep/new.txt"], [])
    assert desk.files() == {"old.txt": "old"}


def test_a_file_gets_its_permissions_back_and_its_copy_is_private(desk: Desk) -> None:
    script = desk.directory / "run.sh"
    script.write_text("echo")
    script.chmod(0o750)
    desk.hear("m1")
    desk.delete("run.sh")
    assert desk.folder.stat().st_mode & 0o777 == 0o700
    assert [copy.stat().st_mode & 0o777 for copy in desk.folder.iterdir()] == [0o600]
    desk.restore("m1")
    assert script.stat().st_mode & 0o777 == 0o750


def test_a_message_with_nothing_after_it_is_restored_fully(desk: Desk) -> None:
    desk.hear("m1")
    assert desk.restore("m1") == ("full", [], [])


def test_a_message_of_an_older_name_is_the_first_behind_the_anchor(desk: Desk) -> None:
    desk.hear("u1")
    desk.write("a.txt", "one")
    desk.say("a1")
    desk.hear("u2")
    desk.write("a.txt", "two")
    assert desk.restore("our name for it", "a1")[0] == "full"
    assert desk.files() == {"a.txt": "one"}
    assert desk.restore("our name for it", None)[0] == "full"
    assert desk.files() == {}


def test_an_unknown_message_restores_nothing(desk: Desk) -> None:
    desk.hear("m1")
    desk.write("a.txt", "one")
    assert desk.restore("m2", "nowhere") == ("failed", [], [])
    assert desk.restore("m2", "m1") == ("failed", [], []), "no message comes after that one"
    assert desk.files() == {"a.txt": "one"}


def test_a_link_is_left_alone_and_named(desk: Desk) -> None:
    outside = desk.home / "outside.txt"
    outside.write_text("not ours")
    desk.hear("m1")
    desk.write("a.txt", "one")
    desk.write("way/b.txt", "one")
    (desk.directory / "a.txt").unlink()
    (desk.directory / "a.txt").symlink_to(outside)
    (desk.directory / "way").rename(desk.home / "moved")
    (desk.directory / "way").symlink_to(desk.home / "moved")
    desk.write("c.txt", "one")
    assert desk.restore("m1") == ("partial", ["c.txt"], ["a.txt", "way/b.txt"])
    assert desk.copies.restore("m1", None)["reason"] == "a.txt is a link; way/b.txt is a link"
    assert outside.read_text() == "not ours"
    assert (desk.home / "moved" / "b.txt").exists()


def test_a_path_out_of_the_directory_is_left_alone(desk: Desk) -> None:
    desk.hear("m1")
    (desk.home / "victim.txt").write_text("not ours")
    desk.history.add({"role": "copy", "path": "../victim.txt"})
    desk.history.add({"role": "copy", "path": str(desk.home / "victim.txt")})
    assert desk.restore("m1")[0] == "partial"
    assert (desk.home / "victim.txt").read_text() == "not ours"


def test_a_file_that_is_too_large_is_named(desk: Desk) -> None:
    large = desk.directory / "large.bin"
    large.write_bytes(b"x" * (module.LARGEST + 1))
    desk.hear("m1")
    desk.delete("large.bin")
    desk.write("a.txt", "one")
    assert desk.restore("m1") == ("partial", ["a.txt"], ["large.bin"])
    assert not desk.folder.exists() or list(desk.folder.iterdir()) == []


def test_all_copies_together_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ALTOGETHER", 10)
    for name in ("a", "b", "c"):
        (desk.directory / name).write_text(name * 4)
    desk.hear("m1")
    for name in ("a", "b", "c"):
        desk.write(name, "new")
    assert desk.restore("m1") == ("partial", ["a", "b"], ["c"])
    again = Copies(str(desk.folder), str(desk.directory), desk.history)
    desk.hear("m2")
    (desk.directory / "d").write_text("dddd")
    again.keep(str(desk.directory / "d"))
    assert desk.history.records[-1]["skipped"], "those of an earlier life count too"


def test_what_is_no_file_is_not_copied(desk: Desk) -> None:
    os.mkfifo(desk.directory / "pipe")
    desk.hear("m1")
    desk.delete("pipe")
    assert desk.restore("m1") == ("partial", [], ["pipe"])


def test_copies_that_are_lost_are_a_failure(desk: Desk) -> None:
    (desk.directory / "a.txt").write_text("old")
    desk.hear("m1")
    desk.write("a.txt", "new")
    desk.copies.lose()
    assert desk.restore("m1") == ("failed", [], ["a.txt"])
    assert desk.files() == {"a.txt": "new"}
    desk.write("b.txt", "new")
    assert desk.restore("m1") == ("partial", ["b.txt"], ["a.txt"])


def test_copies_survive_a_restart(desk: Desk) -> None:
    (desk.directory / "a.txt").write_text("old")
    desk.hear("m1")
    desk.write("a.txt", "new")
    again = Desk(desk.home, History.resume(str(desk.state), ID))
    assert again.restore("m1") == ("full", ["a.txt"], [])
    assert again.files() == {"a.txt": "old"}


def test_a_cut_keeps_what_an_earlier_message_needs(desk: Desk) -> None:
    """Rewound without restoring files: they are still those of the removed part."""
    (desk.directory / "a.txt").write_text("old")
    desk.hear("m1")
    desk.say("a1")
    desk.hear("m2")
    desk.write("a.txt", "two")
    again = Desk(desk.home, History.resume(str(desk.state), ID, "a1"))
    again.hear("m3")
    again.write("a.txt", "three")
    assert again.restore("m3") == ("full", ["a.txt"], [])
    assert again.files() == {"a.txt": "two"}
    assert again.restore("m1") == ("full", ["a.txt"], [])
    assert again.files() == {"a.txt": "old"}


def test_a_fork_restores_its_own_changes_and_names_those_of_its_source(desk: Desk) -> None:
    desk.hear("m1")
    desk.write("a.txt", "source")
    desk.say("a1")
    fork = Desk(desk.home, History.fork(str(desk.state), ID, FORK), FORK)
    fork.hear("m2")
    fork.write("a.txt", "fork")
    fork.write("b.txt", "fork")
    assert fork.restore("m2") == ("full", ["a.txt", "b.txt"], [])
    assert fork.files() == {"a.txt": "source"}
    fork.write("b.txt", "fork")
    assert fork.restore("m1") == ("partial", ["b.txt"], ["a.txt"])
    assert fork.files() == {"a.txt": "source"}
    assert desk.restore("m1") == ("full", ["a.txt"], []), "the source has kept its copies"
