"""A model provider, described by a TOML file.

The files in this package are built in. The owner of a machine adds providers, or replaces a built-in one, with files in
`$FARSTEER_HOME/providers`. The name of the file without `.toml` is the name of the agent.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from farsteer.core.errors import BadRequest
from farsteer.storage.home import read_settings

_BUILT_IN = Path(__file__).parent
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class KeyHeader(StrEnum):
    """The header that carries the key."""

    AUTHORIZATION = "authorization"
    X_API_KEY = "x-api-key"


class Provider(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    title: str
    base_url: str
    key_variable: str
    """The variable of the runner's environment that holds the key. A stored key is used if it is not set."""
    model: str
    """The model of a session that names none."""
    small_model: str | None = None
    """The model for the background work of Claude Code, such as titles. Default: `model`."""
    models: tuple[str, ...] = ()
    """Further models to offer."""
    model_option: str | None = None
    """The option of a new session that names its model."""
    key_header: KeyHeader = KeyHeader.AUTHORIZATION
    key_page: str | None = None
    """Where a person gets a key."""

    def environment(self, key: str, model: str | None = None) -> dict[str, str]:
        """Return the variables that make Claude Code use this provider.

        Every model that Claude Code chooses by itself is set: a provider does not have Anthropic's models.
        """
        model, small = model or self.model, self.small_model or model or self.model
        # An empty key is not the same as none: without it Claude Code may use a key or a login of its owner.
        as_token = self.key_header is KeyHeader.AUTHORIZATION
        credential = {
            "ANTHROPIC_AUTH_TOKEN": key if as_token else "",
            "ANTHROPIC_API_KEY": "" if as_token else key,
        }
        return credential | {
            "ANTHROPIC_BASE_URL": self.base_url,
            "ANTHROPIC_MODEL": model,
            "ANTHROPIC_DEFAULT_OPUS_MODEL": model,
            "ANTHROPIC_DEFAULT_SONNET_MODEL": model,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": small,
            "CLAUDE_CODE_SUBAGENT_MODEL": model,
            # Otherwise `env` and `apiKeyHelper` of the owner's or a project's settings come before these variables.
            "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1",
            # Providers answer more slowly than Anthropic, and know none of its beta features.
            "API_TIMEOUT_MS": "600000",
            "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
        }


def provider_names(home: Path) -> tuple[str, ...]:
    """Return the names of all providers in alphabetical order."""
    files = (*_BUILT_IN.glob("*.toml"), *_directory(home).glob("*.toml"))
    return tuple(sorted({file.stem for file in files if _NAME.fullmatch(file.stem)}))


def load_provider(home: Path, name: str) -> Provider:
    """Return the provider. The owner's file comes before a built-in one. Raises BadRequest if it is not valid."""
    own = _directory(home) / f"{name}.toml"
    path = own if own.exists() else _BUILT_IN / f"{name}.toml"
    provider = read_settings(path, Provider)
    url = urlsplit(provider.base_url)
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.query:
        raise BadRequest(f"{path}: base_url is not the address of an API", field="base_url")
    if not _VARIABLE.fullmatch(provider.key_variable):
        raise BadRequest(f"{path}: key_variable is not the name of a variable", field="key_variable")
    return provider


def _directory(home: Path) -> Path:
    return home / "providers"
