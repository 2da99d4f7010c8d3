"""The real Droid, and a directory for it to work in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vendor.droid.conftest import droid, pin

__all__ = ["droid", "pin"]


@pytest.fixture
def project(home: Path) -> Path:
    path = home.parent / "project"
    path.mkdir()
    return path
