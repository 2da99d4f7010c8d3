"""The installed Codex CLI: where it is, its version, what it can do, and whether it is logged in."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from farsteer.agents.process.program import AgentProgram
from farsteer.core.capabilities import Capabilities

ENVIRONMENT_NAMES = ("CODEX_*", "OPENAI_*")
INSTALL_COMMAND = "npm install -g @openai/codex"
LOGIN_COMMAND = "codex login"
PROGRAM = AgentProgram(
    title="Codex", name="codex", variable="CODEX_EXECUTABLE", packages=("@openai/codex",),
    places=(".local/bin/codex",), tested_version="0.169.0", environment_names=ENVIRONMENT_NAMES,
)  # fmt: skip
CAPABILITIES = Capabilities(
    resume=True, rewind=True, fork=True, steer=True, live_model=True, live_mode=True, live_effort=True, approvals=True,
    questions=True, images=True, usage=True, import_history=True, mcp_servers=True, additional_directories=True,
    terminal=True, model_modes=("gpt-5.2-codex", "gpt-5.1-codex-max", "gpt-5.1-codex-mini", "gpt-5.2"),
)  # fmt: skip
KEY_VARIABLES = ("OPENAI_API_KEY", "CODEX_API_KEY")

_CONFIG_BYTES = 1024 * 1024
_BUILT_IN_WITHOUT_LOGIN = frozenset({"ollama", "lmstudio"})


def codex_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of Codex's configuration, login and conversations."""
    named = environment.get("CODEX_HOME")
    return Path(named) if named else Path(environment.get("HOME") or Path.home()) / ".codex"


def is_logged_in(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether Codex has a login, a key, or a model provider that needs neither. Reads files only."""
    if any(environment.get(name) for name in KEY_VARIABLES):
        return True
    home = codex_home(environment)
    if (home / "auth.json").is_file():
        return True
    return not _needs_login(_read_config(home / "config.toml"))


def _needs_login(config: dict[str, Any]) -> bool:
    profile = _table(_table(config, "profiles"), str(config.get("profile")))
    provider = str(profile.get("model_provider") or config.get("model_provider") or "openai")
    if provider in _BUILT_IN_WITHOUT_LOGIN:
        return False
    settings = _table(_table(config, "model_providers"), provider)
    return not settings or settings.get("requires_openai_auth") is True


def _table(config: dict[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _read_config(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.loads(file.read(_CONFIG_BYTES).decode())
    except (OSError, ValueError):
        return {}
