from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from farsteer.cli.daemon.in_process import in_process_hub
from farsteer.faces.droid.protocol import DIALECTS
from farsteer.faces.droid.sessions import ServerOptions
from tests.support.droid_client import DroidClient, droid_here


@pytest.fixture
def project(home: Path) -> Path:
    path = home.parent / "project"
    path.mkdir()
    return path


@pytest.fixture
async def client(home: Path) -> AsyncIterator[DroidClient]:
    """A client of the default dialect."""
    async with droid_here(partial(in_process_hub, home), ServerOptions(agent="demo")) as client:
        yield client


@pytest.fixture
async def newer(home: Path) -> AsyncIterator[DroidClient]:
    """A client of the newest dialect."""
    options = ServerOptions(agent="demo", dialect=DIALECTS["0.215"])
    async with droid_here(partial(in_process_hub, home), options) as client:
        yield client
