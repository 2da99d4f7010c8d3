"""The check that no test leaves a process behind sees children, and orphans that have another parent."""

import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support import processes

pytestmark = pytest.mark.slow


def test_a_living_child_is_seen_and_a_dead_one_is_not(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        seen = {process.pid for process in processes.left_behind(tmp_path, grace=0)}
        child.kill()
    assert child.pid in seen
    assert child.pid not in {process.pid for process in processes.started_here(tmp_path)}


def test_an_orphan_is_seen_by_the_folder_it_works_in(tmp_path: Path) -> None:
    script = "sleep 60 >/dev/null 2>&1 & echo $!"
    shell = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    orphan = psutil.Process(int(shell.stdout))
    seen = processes.left_behind(tmp_path.resolve(), grace=0)
    processes.kill([orphan])
    assert orphan in seen
    assert not processes.is_alive(orphan)
