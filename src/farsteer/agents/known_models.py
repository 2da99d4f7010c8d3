"""The models that agents listed when they were last started, kept in the home directory.

An agent tells its models only while it runs. They are kept so that clients can offer them before its next start.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from farsteer.core.errors import FarsteerError
from farsteer.core.wire import WireStruct, encode
from farsteer.storage.home import read_private, write_secret

_logger = logging.getLogger(__name__)

_FILE = "models.json"


class ListedModels(WireStruct):
    """What one agent listed."""

    models: tuple[str, ...] = ()
    efforts: dict[str, tuple[str, ...]] = {}


def read_models(home: Path) -> dict[str, ListedModels]:
    """Return the models of each agent. A missing or damaged file gives none: the next start of the agent writes it."""
    try:
        return msgspec.json.decode(read_private(home / _FILE) or b"{}", type=dict[str, ListedModels])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, FarsteerError):
        return {}


def write_models(home: Path, models: dict[str, ListedModels]) -> None:
    """Keep the models. Does nothing without a home; a failure is only logged."""
    if not home.is_dir():
        return
    try:
        write_secret(home / _FILE, encode(models))
    except (OSError, FarsteerError) as error:
        _logger.warning("cannot keep the models of agents: %s", error)
