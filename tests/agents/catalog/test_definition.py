from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from farsteer.agents.acp.adapter import AcpAdapter
from farsteer.agents.catalog import definition as module
from farsteer.agents.catalog.definition import BUILT_IN, Feature, Trap, agent_names, load_agent
from farsteer.agents.providers.provider import provider_names
from farsteer.agents.registry import PREFERENCE, AgentRegistry
from farsteer.core.errors import AgentError, BadRequest, ErrorCode
from farsteer.core.modes import PermissionMode

CATALOG = Path(module.__file__).parent


def write(home: Path, name: str, text: str) -> None:
    (home / "agents").mkdir(exist_ok=True)
    (home / "agents" / f"{name}.toml").write_text(text)


def test_the_names_of_the_catalog_are_those_of_its_files() -> None:
    assert sorted(BUILT_IN) == sorted(path.stem for path in CATALOG.glob("*.toml"))


def test_no_name_of_the_catalog_is_one_of_a_model_provider(tmp_path: Path) -> None:
    assert set(BUILT_IN).isdisjoint(provider_names(tmp_path))


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_agent_of_the_catalog_is_valid_and_says_how_to_get_it(tmp_path: Path, name: str) -> None:
    found = load_agent(tmp_path, name)
    assert found.install
    assert found.login
    assert found.capabilities.approvals
    assert all(getattr(found.capabilities, feature.value) for feature in found.can)
    # What an agent without a known asking mode does unasked is said.
    assert found.modes.ask or found.does_unasked


def test_the_traps_met_in_real_runs_are_in_the_catalog(tmp_path: Path) -> None:
    used = {trap for name in BUILT_IN for trap in load_agent(tmp_path, name).traps}
    assert used == set(Trap)


def test_the_catalog_comes_after_our_own_adapters_and_before_the_demo_agent() -> None:
    assert ("claude", "codex", "droid", *BUILT_IN, "aider", "demo") == PREFERENCE


def test_an_owner_adds_an_agent_and_replaces_one(tmp_path: Path) -> None:
    write(
        tmp_path,
        "mine",
        'title = "Mine"\ncommand = ["mine"]\ncan = ["resume"]\n[modes]\nothers = {x = "yolo"}',
    )
    write(tmp_path, "gemini", 'title = "Other"\ncommand = ["other"]')
    write(tmp_path, "Not A Name", "")
    assert agent_names(tmp_path) == (*BUILT_IN, "mine")
    mine = load_agent(tmp_path, "mine")
    assert mine.can == (Feature.RESUME,)
    assert mine.modes.others == {"x": PermissionMode.YOLO}
    assert load_agent(tmp_path, "gemini").title == "Other"
    adapter = AgentRegistry(tmp_path).adapter("mine")
    assert isinstance(adapter, AcpAdapter)
    assert adapter.capabilities.resume


@pytest.mark.parametrize(
    "text",
    [
        'command = ["a"]', 'title = "A"\ncommand = []', 'title = "A"\ncommand = ["--flag"]', "title = 5",
        'title = "A"\ncommand = ["a"]\ntraps = ["none"]', 'title = "A"\ncommand = ["a"]\nwings = 2',
        'title = "A"\ncommand = ["a"]\nenvironment = { FARSTEER_HOME = "x" }',
        'title = "A"\ncommand = ["a"]\nenvironment_names = ["*"]',
        'title = "A"\ncommand = ["a"]\nenvironment_names = ["CLI_API_TOKEN"]',
        'title = "A"\ncommand = ["a"]\nfiles = [{name = "../x", variable = "X", content = ""}]',
    ],
)  # fmt: skip
def test_a_wrong_definition_is_refused_and_names_its_file(tmp_path: Path, text: str) -> None:
    write(tmp_path, "wrong", text)
    with pytest.raises(BadRequest, match=r"wrong\.toml"):
        load_agent(tmp_path, "wrong")
    with pytest.raises(AgentError) as caught:
        AgentRegistry(tmp_path).adapter("wrong")
    assert caught.value.code is ErrorCode.AGENT_UNKNOWN


async def test_a_missing_agent_starts_no_process_and_a_found_one_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not marked `slow`: a test that starts a process would fail."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "qwen").write_text("#!/nonexistent")
    (tmp_path / "qwen").chmod(0o755)
    registry = AgentRegistry(tmp_path)
    begun = time.perf_counter()
    found = await asyncio.gather(*(registry.adapter(name).detect() for name in BUILT_IN))
    assert time.perf_counter() - begun < 1.0
    assert {info.name for info in found if info.available} == {"qwen"}
    missing = next(info for info in found if info.name == "gemini")
    assert (missing.reason, missing.install) == ("no gemini on PATH", "npm install -g @google/gemini-cli")
