"""Fixtures for every test: its own home, a free port, and a check that no process is left behind."""

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support import ports, processes

# Before any test module imports it.
pytest.register_assert_rewrite("farsteer.hub.store.conformance")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--endurance-seed",
        type=int,
        default=20261116,
        help="seed of the random runs in tests/endurance and tests/faults",
    )


SLOW_FIXTURES = frozenset(
    {"free_port", "hub_only", "known", "newcomer", "repository", "server", "stack", "station", "world"}
)
"""Fixtures that start a process or a server, or that exist for it. A test that uses one is marked `slow`."""

_UNMARKED_MAY_NOT = {
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "os.posix_spawn": "starts a process",
    "subprocess.Popen": "starts a process",
    "socket.bind": "binds a socket",
}
"""Audit events of what only a test marked `slow` may do."""

_unmarked_test: str | None = None
"""The test that runs now, unless it is marked."""


def _refuse_unmarked(event: str, _: tuple[object, ...]) -> None:
    if _unmarked_test is not None and event in _UNMARKED_MAY_NOT:
        raise RuntimeError(f"{_unmarked_test} {_UNMARKED_MAY_NOT[event]}: mark it with pytest.mark.slow")


sys.addaudithook(_refuse_unmarked)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and not SLOW_FIXTURES.isdisjoint(item.fixturenames):
            item.add_marker(pytest.mark.slow)


def _may_start_processes(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("slow", "faults", "vendor"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hold the mark true: `make check` runs the unmarked tests and must stay fast."""
    global _unmarked_test
    _unmarked_test = None if _may_start_processes(item) else item.nodeid
    try:
        return (yield)
    finally:
        _unmarked_test = None


@pytest.fixture
def endurance_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--endurance-seed") or 0)


@pytest.fixture(scope="session")
def _workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp().resolve()


@pytest.fixture(scope="session", autouse=True)
def _session_leaves_no_process(_workspace: Path) -> Iterator[None]:
    """Runs in each xdist worker, after the fixtures of session and module scope have ended."""
    yield
    leftovers = processes.left_behind(_workspace)
    if leftovers:
        report = processes.describe(leftovers)
        processes.kill(leftovers)
        pytest.fail(f"the test session left processes behind:\n{report}", pytrace=False)


@pytest.fixture(autouse=True)
def _test_leaves_no_process(request: pytest.FixtureRequest, _workspace: Path) -> Iterator[None]:
    if not _may_start_processes(request.node):
        yield
        return
    before = processes.started_here(_workspace)
    yield
    leftovers = processes.left_behind(_workspace, before)
    if leftovers:
        report = processes.describe(leftovers)
        processes.kill(leftovers)
        pytest.fail(f"the test left processes behind:\n{report}", pytrace=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty FARSTEER_HOME in an empty HOME, without the developer's own settings."""
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
def project(tmp_path: Path) -> Path:
    """A directory in which sessions may run: neither in the home nor above it."""
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def free_port() -> int:
    """A free port on 127.0.0.1. For several, call tests.support.ports.free_port."""
    return ports.free_port()
