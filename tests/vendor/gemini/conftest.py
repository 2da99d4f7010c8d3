"""The real Gemini CLI without a network: its own home, an invalid key, and the scripted model behind all its models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.permission_modes import Scripts
from tests.vendor.catalog.fixtures import cli, harness, up
from tests.vendor.catalog.profile import Profile
from tests.vendor.pins import GEMINI

__all__ = ["cli", "harness", "up"]

_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "general": {"enableAutoUpdate": False, "maxAttempts": 1},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "model": {"name": "gemini-2.5-pro"},
}


def _prepare(home: Path, url: str) -> dict[str, str]:
    folder = home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(_SETTINGS))
    return {
        "GEMINI_API_KEY": "x",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


PROFILE = Profile(
    name="gemini", pin=GEMINI, prepare=_prepare, models=("gemini-2.5-pro", "gemini-3-flash-preview"),
    seen_models=("gemini-2.5-pro", "gemini-3-flash-preview"),
    # In the mode for plans it offers no tool for commands. A model may use it nevertheless.
    scripts=Scripts(command='[[tool:run_shell_command:{{"command":"touch {name}"}}]]'),
    quick_command='[[tool:run_shell_command:{{"command":"touch {name}"}}]]', asks_outside=False,
    fails_at_once=frozenset({400, 401, 429, 500}),
    mcp_tool="mcp_echo_shout", lasting_grant="[[bash:touch one]]",
)  # fmt: skip


@pytest.fixture
def profile() -> Profile:
    return PROFILE
