"""The installed Droid CLI: where it is, its version, and what that version can do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from farsteer.agents.process.program import AgentProgram
from farsteer.core.capabilities import Capabilities

ENVIRONMENT = {"FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"}
"""Always set: a Droid that looks for an update first may not answer for minutes."""
INSTALL_COMMAND = "npm install -g droid"
LOGIN_HINT = "/login in `droid`, or set FACTORY_API_KEY"
_KEY_VARIABLE = "FACTORY_API_KEY"
_LOGIN_FILES = ("auth.v2.file", "auth.v2.keyring", "auth.v2.loginkeychain", "auth.encrypted", "auth.json")
"""What Droid writes into `~/.factory` when somebody has logged in; older versions have the last two."""
_CUSTOM_MODELS = (("settings.json", "customModels"), ("config.json", "custom_models"))
"""Models with keys of their own, which Droid uses without a login."""
_SETTINGS_BYTES = 1 << 20

PROGRAM = AgentProgram(
    title="Droid", name="droid", variable="DROID_EXECUTABLE", packages=("droid", "@factory/cli"),
    places=(".local/bin/droid",), environment=ENVIRONMENT,
)  # fmt: skip
_CAPABILITIES = Capabilities(
    resume=True, rewind=True, fork=True, live_model=True, live_mode=True, live_effort=True, file_restore=True,
    approvals=True, questions=True, plans=True, images=True, usage=True, import_history=True, mcp_servers=True,
    closed_models=True,
)  # fmt: skip
"""What the newest version can do."""
_REWINDS_SINCE = (0, 200)
"""Up to 0.117 a rewind copies the whole conversation, so older versions can neither rewind nor fork at a message."""


def is_logged_in(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether Droid has a login, a key, or a model that needs neither. Reads files only."""
    if environment.get(_KEY_VARIABLE):
        return True
    folder = Path(environment.get("HOME") or Path.home()) / ".factory"
    if any((folder / name).is_file() for name in _LOGIN_FILES):
        return True
    return any(_read_object(folder / name).get(field) for name, field in _CUSTOM_MODELS)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_SETTINGS_BYTES), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def capabilities_of(version: str | None) -> Capabilities:
    """Return what a version of the CLI can do; for None, what the newest version can do."""
    if version is None:
        return _CAPABILITIES
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers >= _REWINDS_SINCE:
        return _CAPABILITIES
    return msgspec.structs.replace(_CAPABILITIES, rewind=False, fork=False, file_restore=False)
