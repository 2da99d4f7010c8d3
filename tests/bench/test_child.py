"""A measured server announces itself, reports failures and never outlives the measurement."""

import sys
from pathlib import Path

import psutil
import pytest

from bench import child as module
from bench.child import Child, ChildFailed

pytestmark = pytest.mark.slow

PARENT_AND_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print("ready with", child.pid, flush=True)
time.sleep(60)
"""


def start(program: str, directory: Path) -> Child:
    return Child([sys.executable, "-c", program], {}, directory, announces="ready")


def test_is_reaped_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ORPHAN_GRACE", 0.1)
    with start(PARENT_AND_CHILD, tmp_path) as child:
        seconds, line = child.ready()
        grandchild = psutil.Process(int(line.split()[-1]))
    assert seconds > 0
    psutil.wait_procs([grandchild], timeout=5)
    assert not psutil.pid_exists(child.pid)
    assert not grandchild.is_running()


def test_says_what_a_server_said_before_it_died(tmp_path: Path) -> None:
    with (
        start("print('no port is free')", tmp_path) as child,
        pytest.raises(ChildFailed, match="no port is free"),
    ):
        child.ready()
