"""The setup of a new worktree runs only if it was allowed, within limits, and leaves no process behind."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from farsteer.agents.process.environment import LaunchMark
from farsteer.core.errors import BadRequest, ErrorCode, Unprocessable
from farsteer.core.ids import new_id
from farsteer.runner.worktree_setup import Setup, allow, disallow, is_allowed, parse_setup, run_setup

pytestmark = pytest.mark.slow

SETUP = 'setup = [["touch", "one"], ["sh", "-c", "env > environment; pwd > where"]]\n'


async def test_what_takes_too_long_ends_with_everything_that_it_started(tmp_path: Path) -> None:
    child = "import subprocess, sys; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True)"
    script = f"{child}; open('pid', 'w').write('x'); import time; time.sleep(60)"
    setup = Setup(((sys.executable, "-c", script),), timeout=1.5)
    mark = LaunchMark(f"test-{new_id()}", 0, new_id())
    with pytest.raises(Unprocessable) as failed:
        await run_setup(setup, tmp_path, mark, None)
    assert failed.value.code is ErrorCode.WORKTREE_SETUP_FAILED
    assert (tmp_path / "pid").exists()
    left = await asyncio.to_thread(_marked, str(mark))
    assert left == []


def _marked(mark: str) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FARSTEER_LAUNCH") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


async def test_much_output_is_read_and_only_its_end_is_shown(tmp_path: Path) -> None:
    noisy = Setup(((sys.executable, "-c", "print('x' * 5_000_000); print('the end'); raise SystemExit(1)"),))
    with pytest.raises(Unprocessable) as failed:
        await run_setup(noisy, tmp_path, LaunchMark("test", 0, new_id()), None)
    assert failed.value.message.endswith("the end")
    assert len(failed.value.message) < 3000
    missing = Setup((("no-such-program-of-ours",),))
    with pytest.raises(Unprocessable, match="cannot be run"):
        await run_setup(missing, tmp_path, LaunchMark("test", 0, new_id()), None)


@pytest.mark.parametrize(
    "content",
    [
        b"setup = 'npm ci'",
        b"setup = [['']]",
        b"setup = [[]]",
        b"x = 1",
        b"\xff",
        b"setup = [['a']]\ntimeout = 1e9",
    ],
)
def test_a_file_that_is_no_setup_is_refused(content: bytes) -> None:
    with pytest.raises(BadRequest, match=r"worktree\.toml"):
        parse_setup(content)


def test_what_is_allowed_is_of_one_repository(home: Path, tmp_path: Path) -> None:
    home.mkdir(exist_ok=True)
    digest = parse_setup(SETUP.encode()).digest
    allow(home, tmp_path / "one", digest)
    assert is_allowed(home, tmp_path / "one", digest)
    assert not is_allowed(home, tmp_path / "two", digest)
    assert not is_allowed(home, tmp_path / "one", "0" * 64)
    assert disallow(home, tmp_path / "one")
    assert not disallow(home, tmp_path / "one")
    assert not is_allowed(home, tmp_path / "one", digest)
    (home / "worktree-setup.json").write_text("[")
    with pytest.raises(BadRequest, match="damaged"):
        is_allowed(home, tmp_path / "one", digest)
