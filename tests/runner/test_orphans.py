"""Processes that an earlier runner left behind are killed at the next start, and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from farsteer.agents.process import cgroups
from farsteer.agents.process.environment import LAUNCH_VARIABLE, LaunchMark
from farsteer.core.session import SessionSpec, SessionState
from farsteer.runner.orphans import home_id, kill_orphans
from farsteer.runner.runner import Runner
from farsteer.runner.session.context import ActorContext, SessionAgent, TimeLimits
from farsteer.runner.session.launcher import make_plan
from farsteer.storage.home import prepare_home
from tests.runner.harness import SESSION
from tests.runner.scripted import ScriptedAdapter
from tests.support.processes import is_alive

SECONDS = 10.0


class Orphans:
    """Processes with a launch mark that no runner waits for."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, mark: str, name: str = LAUNCH_VARIABLE) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["sleep", "300"],
            env={"LARGE": "x" * 100_000, name: mark, "PATH": os.environ["PATH"]},
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait(SECONDS)


@pytest.fixture
def orphans() -> Iterator[Orphans]:
    orphans = Orphans()
    yield orphans
    orphans.close()


def alive(process: subprocess.Popen[bytes]) -> bool:
    return psutil.pid_exists(process.pid) and is_alive(psutil.Process(process.pid))


@pytest.mark.slow
def test_only_processes_of_this_home_are_killed(tmp_path: Path, orphans: Orphans) -> None:
    mine, other = prepare_home(tmp_path / "mine"), prepare_home(tmp_path / "other")
    name = home_id(mine)
    agents = [orphans.start(str(LaunchMark(name, number, SESSION))) for number in (1, 12)]
    spared = [
        orphans.start(str(LaunchMark(home_id(other), 1, SESSION))),
        orphans.start(f"{name}0:1:{SESSION}"),
        orphans.start(f"x{name}:1:{SESSION}"),
        orphans.start(f"{name}:one:{SESSION}"),
        orphans.start(name),
        orphans.start(str(LaunchMark(name, 1, SESSION)), name=f"MY_{LAUNCH_VARIABLE}"),
        orphans.start(str(LaunchMark(name, 1, SESSION)), name=f"{LAUNCH_VARIABLE}_OF"),
    ]
    assert kill_orphans(mine) == 2
    assert not any(map(alive, agents)), "they are gone when it returns"
    assert all(map(alive, spared))
    assert kill_orphans(mine) == 0


@pytest.mark.slow
@pytest.mark.skipif(cgroups.parent_group() is None, reason="control groups cannot be created here")
def test_a_daemon_of_a_killed_runner_is_found_by_its_control_group(tmp_path: Path) -> None:
    home, other = prepare_home(tmp_path / "home"), prepare_home(tmp_path / "other")
    group = cgroups.create_group(str(LaunchMark(home_id(home), 1, SESSION)))
    assert group is not None
    command = group.command(["env", "-i", "sh", "-c", "echo; exec sleep 300"], None)
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        kill_orphans(other)
        assert alive(daemon)
        kill_orphans(home)
        assert not alive(daemon)
        assert not Path(group.path).exists()


@pytest.mark.slow
def test_a_copy_of_a_home_is_another_home(tmp_path: Path, orphans: Orphans) -> None:
    home = prepare_home(tmp_path / "home")
    agent = orphans.start(str(LaunchMark(home_id(home), 1, SESSION)))
    shutil.copytree(home, tmp_path / "copy")
    assert kill_orphans(tmp_path / "copy") == 0
    assert alive(agent)
    home.rename(tmp_path / "moved")
    assert kill_orphans(tmp_path / "moved") == 1


@pytest.mark.slow
def test_a_runner_that_an_agent_started_does_not_kill_itself_or_the_agent(tmp_path: Path) -> None:
    home = prepare_home(tmp_path / "home")
    script = (
        "import sys, pathlib\nfrom farsteer.runner.orphans import kill_orphans\n"
        "print(kill_orphans(pathlib.Path(sys.argv[1])))"
    )
    shell = 'sleep 300 >/dev/null 2>&1 & "$0" -c "$1" "$2"; echo still here'
    answer = subprocess.run(
        ["/bin/sh", "-c", shell, sys.executable, script, str(home)],
        env={LAUNCH_VARIABLE: str(LaunchMark(home_id(home), 1, SESSION))},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert answer.stdout.split("\n")[:2] == ["1", "still here"]


@pytest.mark.slow
async def test_orphans_are_killed_when_the_runner_is_opened(tmp_path: Path, orphans: Orphans) -> None:
    home = prepare_home(tmp_path / "home")
    agent = orphans.start(str(LaunchMark(home_id(home), 1, SESSION)))
    runner = await Runner.open(home)
    assert not alive(agent)
    await runner.close()


def test_every_launch_has_its_own_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "b")
    spec = SessionSpec(id=SESSION, machine_id="m", directory="/")
    context = ActorContext(
        SessionAgent(ScriptedAdapter(), ""), TimeLimits(startup=1), environment_names=("A",), home_id="h"
    )
    for generation in (1, 7):
        state = SessionState(id=SESSION, agent="scripted", directory="/", generation=generation - 1)
        plan = make_plan(spec, state, context)
        assert plan.environment == {**context.environment(), LAUNCH_VARIABLE: f"h:{generation}:{SESSION}"}
        assert plan.environment["A"] == "b"


@pytest.mark.parametrize("value", ["", "h", "h:1", "h:x:s", "h:-1:s", "h:²:s"])
def test_other_values_are_not_parsed_as_a_mark(value: str) -> None:
    assert LaunchMark.parse(value) is None


def test_a_mark_is_parsed_as_it_was_written() -> None:
    mark = LaunchMark("home.1.2", 3, "a:session:id")
    assert LaunchMark.parse(str(mark)) == mark
