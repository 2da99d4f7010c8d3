import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from farsteer.core.errors import Conflict
from farsteer.storage.connection import connect
from farsteer.storage.home import HomeLock, prepare_home, read_secret, write_secret


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
