from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.promises.station import Station
from tests.support.ports import free_port


@pytest.fixture
async def station(tmp_path: Path) -> AsyncIterator[Station]:
    station = Station(tmp_path, free_port())
    await station.start_hub()
    try:
        await station.start_runner()
        yield station
    finally:
        await station.close()
