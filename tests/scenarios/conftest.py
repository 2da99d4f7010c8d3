from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.scenarios.chat import Chat
from tests.scenarios.world import World


@pytest.fixture
async def world(home: Path) -> AsyncIterator[World]:
    """A connected hub and runner. Change `limits`, then call `restart`, for other limits."""
    async with World.connected(home) as world:
        yield world


@pytest.fixture
async def chat(world: World) -> Chat:
    """A ready session of the demo agent."""
    return await world.create()
