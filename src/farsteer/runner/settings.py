"""What the owner of a machine decides about it, in `runner.toml` of the home directory. Never set from outside."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import msgspec

from farsteer.core.errors import BadRequest


class RunnerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str | None = None
    """How the machine is shown; default: its host name."""
    roots: tuple[str, ...] = ()
    """Directories sessions may run in, with everything below; empty: any."""
    agents: tuple[str, ...] = ()
    """Preferred agents, best first, for sessions that name none."""
    environment: tuple[str, ...] = ()
    """Names of variables every agent may see besides the basic ones."""


def load_settings(home: Path) -> RunnerSettings:
    path = home / "runner.toml"
    try:
        # An editor may have put a byte order mark before it.
        return msgspec.toml.decode(path.read_bytes().removeprefix(BOM_UTF8), type=RunnerSettings)
    except FileNotFoundError:
        return RunnerSettings()
    except msgspec.DecodeError as error:
        raise BadRequest(f"{path}: {error}") from error
