import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from farsteer.core.errors import BadRequest, Conflict
from farsteer.storage.connection import connect
from farsteer.storage.home import HomeLock, prepare_home, read_private, read_secret, write_secret


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_home_is_closed_to_others_also_when_it_was_open(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    prepare_home(home)
    home.chmod(0o755)
    assert mode(prepare_home(home)) == 0o700


def test_databases_and_their_logs_are_for_the_owner_only(tmp_path: Path) -> None:
    db = connect(tmp_path / "a.db")
    db.execute("CREATE TABLE t (x)")
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == {
        "a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600,
    }  # fmt: skip
    db.close()


@pytest.mark.slow
def test_a_second_process_is_told_who_holds_the_home(tmp_path: Path) -> None:
    lock = HomeLock(tmp_path, "hub")
    script = (
        "import sys; from pathlib import Path; from farsteer.storage.home import HomeLock\n"
        "try: HomeLock(Path(sys.argv[1]), 'hub')\n"
        "except Exception as error: print(error)"
    )

    def attempt() -> str:
        command = [sys.executable, "-c", script, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout

    assert f"process {os.getpid()} runs a hub on it" in attempt()
    lock.release()
    assert attempt() == ""


def test_hub_and_runner_may_share_a_home(tmp_path: Path) -> None:
    hub, runner = HomeLock(tmp_path, "hub"), HomeLock(tmp_path, "runner")
    with pytest.raises(Conflict):
        HomeLock(tmp_path, "hub")
    hub.release()
    hub.release()
    HomeLock(tmp_path, "hub").release()
    runner.release()


def test_a_secret_is_private_whole_and_tightened_when_read(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert read_secret(path) is None
    write_secret(path, b"one")
    write_secret(path, b"two")
    assert mode(path) == 0o600
    path.chmod(0o644)
    assert read_secret(path) == b"two"
    assert mode(path) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["token"]


def read_through_link(path: Path, content: bytes = b"x" * 32) -> None:
    target = path.with_name(f"{path.name}.target")
    target.write_bytes(content)
    path.symlink_to(target)


@pytest.mark.parametrize(
    "use",
    [
        lambda home: read_secret(home / "file"),
        lambda home: read_private(home / "file"),
        lambda home: HomeLock(home, "file"),
        lambda home: connect(home / "file"),
    ],
    ids=["secret", "settings", "lock", "database"],
)
def test_a_symbolic_link_in_the_home_is_not_followed(tmp_path: Path, use: Callable[[Path], object]) -> None:
    for name in ("file", "file.lock"):
        read_through_link(tmp_path / name)
    before = [path.read_bytes() for path in sorted(tmp_path.glob("*.target"))]
    with pytest.raises(BadRequest, match="symbolic link"):
        use(tmp_path)
    assert [path.read_bytes() for path in sorted(tmp_path.glob("*.target"))] == before


def test_a_secret_is_not_written_through_a_symbolic_link(tmp_path: Path) -> None:
    path = tmp_path / "token"
    read_through_link(path, b"theirs")
    write_secret(path, b"ours")
    assert not path.is_symlink()
    assert path.with_name("token.target").read_bytes() == b"theirs"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_only_a_regular_file_is_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "token")
    with pytest.raises(BadRequest, match="regular file"):
        read_secret(tmp_path / "token")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_or_home_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_secret(path, b"planted")
    os.chown(path, 65534, 65534)
    for use in (read_secret, read_private, connect):
        with pytest.raises(BadRequest, match="belongs to another user"):
            use(path)
    home = tmp_path / "home"
    prepare_home(home)
    os.chown(home, 65534, 65534)
    with pytest.raises(BadRequest, match="belongs to another user"):
        prepare_home(home)
