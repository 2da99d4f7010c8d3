from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from farsteer.agents import registry as module
from farsteer.agents.demo.adapter import DemoAdapter
from farsteer.agents.registry import ENTRY_POINT_GROUP, PREFERENCE, AgentRegistry
from farsteer.core.errors import AgentError, ErrorCode


class Foreign(DemoAdapter):
    name = "foreign"


class Broken(Foreign):
    name = "broken"

    def __init__(self) -> None:
        raise RuntimeError("no licence")


@pytest.fixture
def registry(tmp_path: Path) -> AgentRegistry:
    return AgentRegistry(tmp_path)


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entry points of other packages: good, raising, under a wrong name, missing, and under a built-in name."""
    here = __name__
    found = [
        EntryPoint("foreign", f"{here}:Foreign", ENTRY_POINT_GROUP),
        EntryPoint("broken", f"{here}:Broken", ENTRY_POINT_GROUP),
        EntryPoint("renamed", f"{here}:Foreign", ENTRY_POINT_GROUP),
        EntryPoint("gone", "no_such_package:Adapter", ENTRY_POINT_GROUP),
        EntryPoint("demo", f"{here}:Foreign", ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)
    module._entry_points.cache_clear()
    yield
    module._entry_points.cache_clear()


async def test_the_built_in_agents_come_first_and_the_demo_agent_is_available(
    registry: AgentRegistry,
) -> None:
    assert registry.names()[: len(PREFERENCE)] == PREFERENCE
    info = await registry.adapter("demo").detect()
    assert info.available
    assert info.capabilities.resume


async def test_an_unknown_agent_is_told_which_there_are_and_which_can_work(
    registry: AgentRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_EXECUTABLE", "CODEX_EXECUTABLE", "DROID_EXECUTABLE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AgentError) as caught:
        await registry.find("nobody")
    assert caught.value.code is ErrorCode.AGENT_UNKNOWN
    assert "ready: demo; not installed: claude, codex, droid" in caught.value.message
    assert (await registry.find("demo")).name == "demo"


def test_an_unknown_agent_is_an_error_that_lists_the_known_ones(registry: AgentRegistry) -> None:
    with pytest.raises(AgentError) as caught:
        registry.adapter("nobody")
    assert caught.value.code is ErrorCode.AGENT_UNKNOWN
    assert "demo" in caught.value.details["agents"]


@pytest.mark.usefixtures("foreign")
def test_another_package_provides_an_adapter(registry: AgentRegistry) -> None:
    assert registry.names()[-4:] == ("broken", "foreign", "gone", "renamed")
    assert isinstance(registry.adapter("foreign"), Foreign)
    assert registry.adapter("foreign") is registry.adapter("foreign")


@pytest.mark.usefixtures("foreign")
def test_a_built_in_name_cannot_be_replaced(registry: AgentRegistry) -> None:
    assert type(registry.adapter("demo")) is DemoAdapter


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("name", ["broken", "renamed", "gone"])
def test_an_adapter_that_cannot_be_loaded_is_named_in_the_error(registry: AgentRegistry, name: str) -> None:
    with pytest.raises(AgentError) as caught:
        registry.adapter(name)
    assert caught.value.code is ErrorCode.AGENT_UNKNOWN
    assert "Adapter" in caught.value.message or __name__ in caught.value.message


@pytest.mark.usefixtures("foreign")
async def test_an_adapter_that_fails_does_not_hide_the_others(registry: AgentRegistry) -> None:
    found = {info.name: info for info in await registry.detect_all()}
    assert list(found) == list(registry.names())
    assert found["demo"].available
    assert found["foreign"].available
    assert not found["broken"].available
    assert "no licence" in (found["broken"].reason or "")
    assert not found["gone"].available


def test_the_models_that_an_agent_lists_are_known_after_a_restart(tmp_path: Path) -> None:
    first = AgentRegistry(tmp_path)
    assert first.adapter("droid").models == ()
    first.adapter("droid").set_models(("a", "b"), {"b": ("low", "high")})
    assert first.models() == {"droid": ("a", "b")}
    again = AgentRegistry(tmp_path).adapter("droid")
    assert (again.models, again.efforts) == (("a", "b"), {"b": ("low", "high")})
    (tmp_path / "models.json").write_text("[")
    assert AgentRegistry(tmp_path).adapter("droid").models == ()
