from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from farsteer.agents import registry
from farsteer.agents.demo.adapter import DemoAdapter
from farsteer.core.errors import AgentError, ErrorCode


class Foreign(DemoAdapter):
    name = "foreign"


class Broken(Foreign):
    name = "broken"

    def __init__(self) -> None:
        raise RuntimeError("no licence")


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entry points of other packages: good, raising, under a wrong name, missing, and under a built-in name."""
    here = __name__
    found = [
        EntryPoint("foreign", f"{here}:Foreign", registry.ENTRY_POINT_GROUP),
        EntryPoint("broken", f"{here}:Broken", registry.ENTRY_POINT_GROUP),
        EntryPoint("renamed", f"{here}:Foreign", registry.ENTRY_POINT_GROUP),
        EntryPoint("gone", "no_such_package:Adapter", registry.ENTRY_POINT_GROUP),
        EntryPoint("demo", f"{here}:Foreign", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)
    registry._entry_points.cache_clear()
    yield
    registry._entry_points.cache_clear()
    registry.adapter.cache_clear()


async def test_the_built_in_agents_come_first_and_the_demo_agent_is_available() -> None:
    assert registry.names()[:2] == ("droid", "demo")
    assert set(registry.PREFERENCE) <= set(registry.names())
    info = await registry.adapter("demo").detect()
    assert info.available
    assert info.capabilities.resume


def test_an_unknown_agent_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(AgentError) as caught:
        registry.adapter("nobody")
    assert caught.value.code is ErrorCode.AGENT_UNKNOWN
    assert "demo" in caught.value.details["agents"]


@pytest.mark.usefixtures("foreign")
def test_another_package_provides_an_adapter() -> None:
    assert registry.names() == (*registry.PREFERENCE, "broken", "foreign", "gone", "renamed")
    assert isinstance(registry.adapter("foreign"), Foreign)
    assert registry.adapter("foreign") is registry.adapter("foreign")


@pytest.mark.usefixtures("foreign")
def test_a_built_in_name_cannot_be_replaced() -> None:
    assert type(registry.adapter("demo")) is DemoAdapter


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("name", ["broken", "renamed", "gone"])
def test_an_adapter_that_cannot_be_loaded_is_named_in_the_error(name: str) -> None:
    with pytest.raises(AgentError) as caught:
        registry.adapter(name)
    assert caught.value.code is ErrorCode.AGENT_UNKNOWN
    assert "Adapter" in caught.value.message or __name__ in caught.value.message


@pytest.mark.usefixtures("foreign")
async def test_an_adapter_that_fails_does_not_hide_the_others() -> None:
    found = {info.name: info for info in await registry.detect_all()}
    assert list(found) == list(registry.names())
    assert found["demo"].available
    assert found["foreign"].available
    assert not found["broken"].available
    assert "no licence" in (found["broken"].reason or "")
    assert not found["gone"].available
