"""Backups of a home: what is in one, what a restore refuses, and what is left when it is killed."""

import hashlib
import io
import os
import shutil
import sqlite3
import stat
import tarfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from farsteer.core.errors import BadRequest, Conflict, FarsteerError, NotFound, Unavailable
from farsteer.core.wire import decode, encode
from farsteer.storage import restore
from farsteer.storage.backup import FORMAT, MANIFEST, Backup, Manifest, Member, create_backup
from farsteer.storage.connection import connect
from farsteer.storage.home import HomeLock
from farsteer.storage.restore import Restored, restore_backup

SCHEMAS = {"hub.db": 99, "runner.db": 99}


def back_up(home: Path, target: Path, **options: Any) -> Backup:
    return create_backup(home, target, version="1", **options)


def put_back(home: Path, archive: Path, **options: Any) -> Restored:
    return restore_backup(home, archive, schemas=SCHEMAS, **options)


def rows(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        return [n for (n,) in db.execute("SELECT n FROM numbers ORDER BY n")]


def files(home: Path) -> dict[str, bytes]:
    """Everything but databases and locks."""
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not path.name.endswith((".db", ".lock"))
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "agents" / "demo").mkdir(parents=True)
    for name in ("hub.db", "runner.db"):
        with closing(connect(home / name)) as db:
            db.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
            db.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(3)])
    (home / "token").write_text("a secret")
    (home / "hub.toml").write_text("")
    (home / "agents" / "demo" / "talk.jsonl").write_text("hello")
    (home / "hub.json").write_text("{}")
    return home


def test_everything_of_a_home_comes_back(home: Path, tmp_path: Path) -> None:
    (home / "notes.txt").write_text("mine")
    (home / "agents" / "link").symlink_to("/etc/passwd")
    made = back_up(home, tmp_path / "backup.tar")
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    assert made.size == made.file.stat().st_size
    assert made.left_out == ["agents/link", "notes.txt"]
    new = tmp_path / "new"
    done = put_back(new, made.file)
    assert {member.name for member in done.contents} == {
        "hub.db", "runner.db", "token", "hub.toml", "agents/demo/talk.jsonl",
    }  # fmt: skip
    assert files(new) == {"token": b"a secret", "hub.toml": b"", "agents/demo/talk.jsonl": b"hello"}
    assert rows(new / "hub.db") == rows(new / "runner.db") == [0, 1, 2]
    assert {stat.S_IMODE(path.stat().st_mode) for path in new.rglob("*") if path.is_file()} == {0o600}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_file_is_not_replaced_unless_it_is_forced(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup.tar"
    target.write_text("precious")
    with pytest.raises(Conflict, match="--force"):
        back_up(home, target)
    assert target.read_text() == "precious"
    back_up(home, target, force=True)
    assert tarfile.is_tarfile(target)
    with pytest.raises(NotFound):
        back_up(tmp_path / "nowhere", tmp_path / "other.tar")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadRequest, match="nothing to back up"):
        back_up(tmp_path / "empty", tmp_path / "other.tar")
    assert not (tmp_path / "other.tar").exists()


def test_a_backup_of_databases_that_are_written_is_one_moment_of_each(home: Path, tmp_path: Path) -> None:
    """The writer never waits for long, and the copy of hub.db is not older than that of runner.db."""
    with closing(connect(home / "hub.db")) as db:
        db.execute("CREATE TABLE ballast (body BLOB)")
        db.executemany("INSERT INTO ballast VALUES (?)", [(os.urandom(100_000),) for _ in range(200)])
    stop = threading.Event()
    waits: list[float] = []

    def write() -> None:
        # First here, then there: as a hub that stores what a runner confirms.
        with closing(connect(home / "hub.db")) as hub, closing(connect(home / "runner.db")) as runner:
            n = 3
            while not stop.is_set():
                started = time.monotonic()
                for db in (hub, runner):
                    db.execute("INSERT INTO numbers VALUES (?)", (n,))
                waits.append(time.monotonic() - started)
                n += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(waits) < 10:
            time.sleep(0.001)
        before = len(waits)
        back_up(home, tmp_path / "backup.tar")
        assert len(waits) > before, "it went on"
    finally:
        stop.set()
        writer.join()
    put_back(tmp_path / "new", tmp_path / "backup.tar")
    hub, runner = rows(tmp_path / "new" / "hub.db"), rows(tmp_path / "new" / "runner.db")
    assert hub == list(range(len(hub)))
    assert runner == list(range(len(runner)))
    assert len(hub) >= len(runner) > 10


def test_a_damaged_database_is_not_backed_up(home: Path, tmp_path: Path) -> None:
    with closing(connect(home / "hub.db")) as db:
        db.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(10, 5000)])
    with (home / "hub.db").open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * 8192)
    with pytest.raises(Unavailable) as caught:
        back_up(home, tmp_path / "backup.tar")
    assert caught.value.code == "database_damaged"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


# -- restore


@pytest.fixture
def archive(home: Path, tmp_path: Path) -> Path:
    return back_up(home, tmp_path / "backup.tar").file


@pytest.mark.parametrize("name", ["hub", "runner"])
def test_a_home_that_is_in_use_is_not_restored(home: Path, archive: Path, name: str) -> None:
    lock = HomeLock(home, name)
    with pytest.raises(Conflict, match="in use"):
        put_back(home, archive, force=True)
    lock.release()
    put_back(home, archive, force=True)


def test_a_home_with_files_is_kept_aside(home: Path, archive: Path) -> None:
    before = files(home)
    with pytest.raises(Conflict, match="--force"):
        put_back(home, archive)
    assert files(home) == before
    with closing(connect(home / "hub.db")) as db:
        db.execute("DELETE FROM numbers")
    (home / "token").write_text("newer")
    done = put_back(home, archive, force=True)
    assert done.replaced is not None
    assert rows(home / "hub.db") == [0, 1, 2]
    assert (home / "token").read_text() == "a secret"
    assert rows(done.replaced / "hub.db") == []
    assert (done.replaced / "token").read_text() == "newer"
    again = put_back(home, archive, force=True)
    assert again.replaced not in (None, done.replaced)
    assert (done.replaced / "token").read_text() == "newer"


def test_a_backup_of_a_newer_version_is_refused(tmp_path: Path, home: Path) -> None:
    with closing(connect(home / "hub.db")) as db:
        db.execute("PRAGMA user_version = 100")
    made = back_up(home, tmp_path / "newer.tar")
    with pytest.raises(Conflict, match="schema 100"):
        put_back(tmp_path / "new", made.file)
    assert [path.name for path in (tmp_path / "new").iterdir() if not path.name.endswith(".lock")] == []


def with_member(archive: Path, name: str, fields: dict[str, Any]) -> Path:
    """The archive with one more member, under a manifest that fits, so that only the member is wrong."""
    added = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(added, field, value)
    target = archive.with_name("changed.tar")
    with tarfile.open(archive) as old, tarfile.open(target, "w") as new:
        listed = [Member(name, 0 if fields else 1, hashlib.sha256(b"" if fields else b"x").hexdigest())]
        for info in old:
            content = old.extractfile(info)
            assert content is not None
            if info.name == MANIFEST:
                listed += decode(content.read(), Manifest).files
                break
            new.addfile(info, content)
        added.size = 0 if fields else 1
        new.addfile(added, io.BytesIO(b"x"))
        content = encode(Manifest(FORMAT, "1", 0, listed))
        info = tarfile.TarInfo(MANIFEST)
        info.size = len(content)
        new.addfile(info, io.BytesIO(content))
    return target


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("../outside", {}),
        ("/tmp/outside", {}),
        ("agents/../../outside", {}),
        ("agents/../token", {}),
        ("./agents/a", {}),
        ("agents//a", {}),
        ("agents", {}),
        ("other", {}),
        ("hub.lock", {}),
        ("hub.db-wal", {}),
        ("agents/" + "d/" * 40 + "deep", {}),
        ("agents/link", {"type": tarfile.SYMTYPE, "linkname": "/etc"}),
        ("agents/hard", {"type": tarfile.LNKTYPE, "linkname": "token"}),
        ("agents/pipe", {"type": tarfile.FIFOTYPE}),
        ("agents/directory", {"type": tarfile.DIRTYPE}),
    ],
)
def test_members_that_do_not_belong_in_a_backup_are_refused(
    archive: Path, tmp_path: Path, name: str, fields: dict[str, Any]
) -> None:
    new = tmp_path / "deep" / "new"
    with pytest.raises(BadRequest):
        put_back(new, with_member(archive, name, fields))
    assert {path.name for path in new.iterdir()} == {"hub.lock", "runner.lock"}
    assert [path.name for path in new.parent.iterdir()] == ["new"]
    assert not Path("/tmp/outside").exists()


def test_a_member_that_belongs_in_a_backup_is_taken(archive: Path, tmp_path: Path) -> None:
    put_back(tmp_path / "new", with_member(archive, "agents/more/talk", {}))
    assert (tmp_path / "new" / "agents" / "more" / "talk").read_bytes() == b"x"


def test_an_archive_that_is_cut_or_changed_is_refused(archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    new = tmp_path / "new"
    damaged = tmp_path / "damaged.tar"
    for length in (0, 100, 512, len(whole) // 2, len(whole) - 10240):
        damaged.write_bytes(whole[:length])
        with pytest.raises(FarsteerError):
            put_back(new, damaged)
    at = whole.index(b"a secret")
    damaged.write_bytes(whole[:at] + b"A" + whole[at + 1 :])
    with pytest.raises(BadRequest, match="token"):
        put_back(new, damaged)
    with pytest.raises(BadRequest, match="no file"):
        put_back(new, tmp_path / "missing.tar")
    assert {path.name for path in new.iterdir()} == {"hub.lock", "runner.lock"}
    put_back(new, archive)


class Killed(BaseException):
    pass


def test_a_restore_that_is_killed_anywhere_is_finished_by_the_next(
    home: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either the home is as it was, or nobody can use it until the restore is finished; nothing is lost."""
    (home / "token").write_text("newer")
    real, calls = Path.rename, 0

    def killed_rename(path: Path, target: Path) -> Path:
        nonlocal calls
        calls -= 1
        if calls == 0:
            raise Killed
        return real(path, target)

    for count in range(1, 40):
        copy = tmp_path / f"copy-{count}"
        shutil.copytree(home, copy)
        calls = count
        monkeypatch.setattr(Path, "rename", killed_rename)
        try:
            put_back(copy, archive, force=True)
        except Killed:
            killed = True
        else:
            killed = False
        monkeypatch.setattr(Path, "rename", real)
        if killed:
            begun = any((copy / name).exists() for name in restore.UNFINISHED_RESTORE)
            if begun:
                with pytest.raises(Conflict, match="farsteer restore"):
                    HomeLock(copy, "hub")
            else:
                assert files(copy)["token"] == b"newer"
            done = put_back(copy, archive, force=True)
            assert done.finished is begun
        HomeLock(copy, "hub").release()
        kept = [path for path in copy.iterdir() if path.name.startswith("replaced-")]
        assert len(kept) == 1
        assert (kept[0] / "token").read_text() == "newer"
        assert (copy / "token").read_text() == "a secret"
        assert rows(copy / "hub.db") == rows(copy / "runner.db") == [0, 1, 2]
        if not killed:
            break
    else:
        pytest.fail("it was killed every time")
    assert count > 8


def test_the_manifest_names_everything(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        content = tar.extractfile(MANIFEST)
        assert content is not None
        manifest = decode(content.read(), Manifest)
    assert names == [*(member.name for member in manifest.files), MANIFEST]
