"""The real Droid as the other vendor tests have it, and the desk it works at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vendor.droid.conftest import droid, pin

__all__ = ["droid", "pin"]


@pytest.fixture
def desk(home: Path) -> Path:
    path = home.parent / "project"
    path.mkdir()
    return path
