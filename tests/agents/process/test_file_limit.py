"""The runner may open as many files as the system allows; its agents keep the limit it was started with."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_PROGRAM = """
import resource, sys
from farsteer.agents.process import file_limit, posix
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
file_limit.raise_file_limit()
file_limit.raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard)
agent = posix.spawn(["sh", "-c", "read line; ulimit -Sn"], cwd="/", environment={"PATH": "/usr/bin:/bin"})
print(agent.communicate(b"go\\n")[0].decode().strip())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can change the limit of another process")
def test_the_limit_is_raised_for_the_runner_and_not_for_agents() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == ["True", "256"]
