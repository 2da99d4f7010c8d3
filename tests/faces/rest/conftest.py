"""A running hub for each test, and its owner signed in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.stack import Account, Stack, farsteer


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        yield stack


@pytest.fixture
async def hub_only(home: Path) -> AsyncIterator[Stack]:
    """Without a runner, which makes it start faster."""
    async with farsteer(home, with_runner=False) as stack:
        yield stack


@pytest.fixture
async def owner(stack: Stack) -> Account:
    return await stack.sign_in()
