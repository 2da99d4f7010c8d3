"""The stored keys of model providers: one file each in `$FARSTEER_HOME/keys`, readable by its owner only."""

from __future__ import annotations

from pathlib import Path

from farsteer.core.errors import BadRequest
from farsteer.storage.home import prepare_home, read_secret, write_secret

_MAX_LENGTH = 2000


def read_key(home: Path, provider: str) -> str | None:
    """Return the stored key, or None. Raises BadRequest if its file is damaged or not private."""
    content = read_secret(_file(home, provider))
    return None if content is None else _checked(content.decode(errors="replace"), _file(home, provider))


def store_key(home: Path, provider: str, key: str) -> None:
    """Store a key. Raises BadRequest if it cannot be one."""
    key = _checked(key, "the key")
    file = _file(home, provider)
    prepare_home(file.parent)
    write_secret(file, f"{key}\n".encode())


def delete_key(home: Path, provider: str) -> bool:
    """Delete a stored key. Returns whether there was one."""
    try:
        _file(home, provider).unlink()
    except FileNotFoundError:
        return False
    return True


def _checked(text: str, source: object) -> str:
    key = text.strip()
    if not key or len(key) > _MAX_LENGTH or not (key.isascii() and key.isprintable()) or " " in key:
        raise BadRequest(f"{source} is not a key: one line of printable characters without spaces")
    return key


def _file(home: Path, provider: str) -> Path:
    return home / "keys" / provider
