"""Fixtures of every test: a home of its own, a free port, and nothing left running."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ports, processes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--endurance-seed",
        type=int,
        default=20261116,
        help="which random run of tests/endurance and tests/faults",
    )


WHOLE = ("agents/demo", "agents/droid", "cli", "client", "contract", "docs", "faces", "promises", "scenarios")
"""Folders whose tests run servers and agents: together they take minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).as_posix().startswith(WHOLE):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def endurance_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--endurance-seed") or 0)


@pytest.fixture(scope="session")
def _workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp().resolve()


@pytest.fixture(scope="session", autouse=True)
def _session_leaves_no_process(_workspace: Path) -> Iterator[None]:
    """Runs in each xdist worker; outlives the fixtures of session and module scope."""
    yield
    leftovers = processes.left_behind(_workspace)
    if leftovers:
        report = processes.describe(leftovers)
        processes.kill(leftovers)
        pytest.fail(f"the test session left processes behind:\n{report}", pytrace=False)


@pytest.fixture(autouse=True)
def _test_leaves_no_process(_workspace: Path) -> Iterator[None]:
    before = processes.started_here(_workspace)
    yield
    leftovers = processes.left_behind(_workspace, before)
    if leftovers:
        report = processes.describe(leftovers)
        processes.kill(leftovers)
        pytest.fail(f"the test left processes behind:\n{report}", pytrace=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new, empty FARSTEER_HOME under a new HOME; no setting of the developer's leaks in."""
    for name in [*os.environ]:
        if name.startswith(("FARSTEER_", "XDG_")) or name == "CLI_API_TOKEN":
            monkeypatch.delenv(name)
    user = tmp_path / "home"
    farsteer = user / ".farsteer"
    farsteer.mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("FARSTEER_HOME", str(farsteer))
    return farsteer


@pytest.fixture
def free_port() -> int:
    """One free port on 127.0.0.1; for several, call tests.support.ports.free_port."""
    return ports.free_port()
