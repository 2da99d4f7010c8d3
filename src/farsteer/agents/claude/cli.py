"""The installed Claude Code: where it is, its version, what it can do, and whether it is logged in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from farsteer.agents.process.program import AgentProgram
from farsteer.core.capabilities import Capabilities

GENERAL_VARIABLES = (
    "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_DISABLE_*", "CLAUDE_CODE_MAX_*", "BASH_*_TIMEOUT_MS", "MCP_*TIMEOUT",
    "API_TIMEOUT_MS", "MAX_THINKING_TOKENS", "IS_SANDBOX", "USE_BUILTIN_RIPGREP", "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_PROMPT_CACHING",
)  # fmt: skip
"""Settings of Claude Code that have nothing to do with where its models are."""
MODEL_VARIABLES = (
    "ANTHROPIC_*", "CLAUDE_*", "AWS_*", "VERTEX_*", "CLOUD_ML_REGION", "GOOGLE_APPLICATION_CREDENTIALS",
)  # fmt: skip
"""Where its models are, and the log-ins of the clouds through which it can reach one."""
ENVIRONMENT_NAMES = (*GENERAL_VARIABLES, *MODEL_VARIABLES)
INSTALL_COMMAND = "npm install -g @anthropic-ai/claude-code"
LOGIN_COMMAND = "claude auth login"
PROGRAM = AgentProgram(
    title="Claude Code", name="claude", variable="CLAUDE_EXECUTABLE", packages=("@anthropic-ai/claude-code",),
    places=(".local/bin/claude", ".claude/local/claude"), tested_version="2.1.326", environment_names=ENVIRONMENT_NAMES,
)  # fmt: skip
CAPABILITIES = Capabilities(
    caller_chosen_id=True, resume=True, rewind=True, fork=True, steer=True, live_model=True, live_mode=True,
    live_effort=True, file_restore=True, approvals=True, questions=True, plans=True, images=True, usage=True,
    import_history=True, mcp_servers=True, additional_directories=True, terminal=True, options=("claudeAgent",),
    model_modes=("sonnet", "opus"),
)  # fmt: skip
KEY_VARIABLES = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
)  # fmt: skip

_SETTINGS_BYTES = 4 * 1024 * 1024


def config_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of Claude Code's settings and conversations."""
    named = environment.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path(environment.get("HOME") or Path.home()) / ".claude"


def is_logged_in(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether Claude Code has a login or a key. Reads files only; a login that has expired is not noticed."""
    if any(environment.get(name) for name in KEY_VARIABLES):
        return True
    folder = config_dir(environment)
    if (folder / ".credentials.json").is_file():
        return True
    home = Path(environment.get("HOME") or Path.home())
    global_settings = (
        folder / ".claude.json" if environment.get("CLAUDE_CONFIG_DIR") else home / ".claude.json"
    )
    known = _read_object(global_settings)
    # On macOS the credentials are in the keychain, and the account is named here.
    if known.get("primaryApiKey") or (sys.platform == "darwin" and known.get("oauthAccount")):
        return True
    settings = _read_object(folder / "settings.json")
    variables = settings.get("env")
    named = isinstance(variables, dict) and any(name in variables for name in KEY_VARIABLES)
    return named or bool(settings.get("apiKeyHelper"))


def _read_object(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_SETTINGS_BYTES), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
