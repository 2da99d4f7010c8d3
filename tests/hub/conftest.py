from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from farsteer.core.api import CreateSession, SessionCreated
from farsteer.hub import CreationResult, Hub
from farsteer.hub.services.creation import CreationFailed
from tests.hub.scripted import ScriptedRunner, caller

OWNER_TOKEN = "the-owners-token"


@pytest.fixture
async def hub(home: Path) -> AsyncIterator[Hub]:
    hub = await Hub.open(home, OWNER_TOKEN)
    yield hub
    await hub.close()


@pytest.fixture
async def runner(hub: Hub) -> AsyncIterator[ScriptedRunner]:
    async with ScriptedRunner(hub) as runner:
        yield runner


@pytest.fixture
async def session_id(hub: Hub, runner: ScriptedRunner) -> str:
    """A session that is there and idle."""
    return await create(hub, runner)


async def create(hub: Hub, runner: ScriptedRunner, **fields: Any) -> str:
    request = CreateSession(machine_id=runner.info.id, directory="/work", **fields)
    return created(await hub.sessions.create(caller(runner.namespace), request)).session_id


def created(result: CreationResult) -> SessionCreated:
    assert isinstance(result, SessionCreated), result
    return result


def failed(result: CreationResult, status: int) -> CreationFailed:
    assert isinstance(result, CreationFailed), result
    assert result.error.status == status
    return result
