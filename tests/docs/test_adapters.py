"""docs/adapters.md is true: its example is found, answers and passes the conformance suite; its tables are complete."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from farsteer.agents.conformance import AdapterConformance, Prompts
from farsteer.agents.registry import ENTRY_POINT_GROUP
from farsteer.core.capabilities import Capabilities

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adapters.md").read_text()
SECONDS = 120.0


class Package:
    """The package of the page, on the path of a Python that has Farsteer."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self._env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(folder)}

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *arguments], cwd=self.folder, env=self._env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """Write the files of the page, and the metadata that an installation would make of its pyproject.toml."""
    folder, home = tmp_path / "package", tmp_path / "home"
    home.mkdir()
    files = dict(re.findall(r"^`([\w./]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    assert {"pyproject.toml", "tests/test_adapter.py"} < files.keys()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    project = tomllib.loads(files["pyproject.toml"])["project"]
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    entries = project["entry-points"][ENTRY_POINT_GROUP]
    lines = [f"[{ENTRY_POINT_GROUP}]", *(f"{name} = {target}" for name, target in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return Package(folder, home)


def test_the_example_passes_the_conformance_suite(package: Package) -> None:
    report = package.run(
        "pytest", "-rA", "-q", "-W", "error", "-p", "no:asyncio", "-p", "no:cacheprovider", "tests"
    )
    passed = set(re.findall(r"^PASSED \S+::(\w+)$", report, re.MULTILINE))
    assert {
        "test_a_turn_emits_a_message_and_then_ends",
        "test_one_process_serves_many_turns",
        "test_an_interrupt_ends_the_turn_and_not_the_session",
        "test_stop_ends_a_running_turn_as_cancelled",
        "test_a_crash_ends_the_turn_and_then_the_launch",
        "test_a_start_that_takes_too_long_fails_and_leaves_no_process",
        "test_a_start_that_is_cancelled_leaves_no_process",
        "test_an_event_of_an_unknown_kind_is_kept",
        "test_garbage_causes_a_notice_and_the_agent_goes_on",
    } <= passed
    assert len(passed) >= 25, report


def test_the_example_is_found_and_answers(package: Package) -> None:
    info = json.loads(package.run("farsteer", "agents", "echo", "--json"))
    assert (info["name"], info["available"]) == ("echo", True)
    assert package.run("farsteer", "exec", "--agent", "echo", "hello") == "You said: hello\n"


def test_every_contract_prompt_and_capability_is_listed() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    first = {name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    contracts = {base.__name__ for base in AdapterConformance.__bases__}
    capabilities = {field.name for field in msgspec.structs.fields(Capabilities)}
    assert first == contracts | capabilities
    last = {name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[-1])}
    assert {field.name for field in msgspec.structs.fields(Prompts)} <= last


def test_the_links_of_the_page_exist() -> None:
    for target in re.findall(r"\]\(([\w./-]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
