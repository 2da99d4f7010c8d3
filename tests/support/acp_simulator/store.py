"""The simulator's sessions, as files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec


class StoredTurn(msgspec.Struct):
    text: str
    updates: list[dict[str, Any]] = []
    """The messages and thoughts of the turn, in whole."""


class Session(msgspec.Struct):
    id: str
    cwd: str
    turns: list[StoredTurn] = []
    updated_at: float = 0.0


def save(session: Session) -> None:
    _folder().mkdir(parents=True, exist_ok=True)
    session.updated_at = time.time()
    written = _folder() / f"{session.id}.new"
    written.write_bytes(msgspec.json.encode(session))
    written.replace(_file(session.id))


def load(session_id: str) -> Session | None:
    try:
        return msgspec.json.decode(_file(session_id).read_bytes(), type=Session)
    except FileNotFoundError:
        return None


def delete(session_id: str) -> None:
    _file(session_id).unlink(missing_ok=True)


def everything() -> list[Session]:
    return [msgspec.json.decode(path.read_bytes(), type=Session) for path in _folder().glob("*.json")]


def _file(session_id: str) -> Path:
    return _folder() / f"{Path(session_id).name}.json"


def _folder() -> Path:
    return Path(os.environ["HOME"]) / ".acp-simulator"
