from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.agents import registry
from tests.scenarios.chat import Chat
from tests.scenarios.world import World


@pytest.fixture
async def world(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A connected hub and runner. Change `limits`, then call `restart`, for other limits."""
    world = World(home)
    monkeypatch.setattr(registry, "adapter", world.adapter)
    await world.start_hub()
    await world.start_runner()
    yield world
    await world.close()


@pytest.fixture
async def chat(world: World) -> Chat:
    """A ready session of the demo agent."""
    return await world.create()
