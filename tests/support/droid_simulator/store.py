"""Where Droid keeps conversations: a file of lines and one of settings each, in a folder per working directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from farsteer.core.wire import encode
from farsteer.faces.droid.notes import Message, Tokens


class Settings(msgspec.Struct):
    """What a session is set to. `level` is off, low, medium or high."""

    model: str = "sim-1"
    effort: str = "none"
    level: str = "off"
    spec: bool = False
    title: str | None = None
    used: Tokens = Tokens()


class Stored(msgspec.Struct):
    id: str
    directory: str
    settings: Settings
    messages: list[Message]
    parent: str | None = None
    """The one it is a copy of."""


class _Line(msgspec.Struct):
    type: str
    cwd: str | None = None
    message: Message | None = None


def _folder() -> Path:
    return Path(os.environ.get("HOME") or ".") / ".factory" / "sessions"


def _path(session: Stored) -> Path:
    return _folder() / session.directory.replace("/", "-") / f"{session.id}.jsonl"


def begin(session: Stored) -> None:
    path = _path(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    head: dict[str, Any] = {
        "type": "session_start", "id": session.id, "title": session.settings.title or "New Session", "version": 2,
        "cwd": session.directory,
    }  # fmt: skip
    if session.parent is not None:
        head["parent"] = session.parent
    lines = [encode(head), *(_message(message) for message in session.messages)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    save(session)


def add(session: Stored, message: Message) -> None:
    session.messages.append(message)
    with _path(session).open("ab") as file:
        file.write(_message(message) + b"\n")


def save(session: Stored) -> None:
    path = _path(session).with_suffix(".settings.json")
    draft = path.with_suffix(".new")
    draft.write_bytes(encode(session.settings))
    draft.replace(path)


def load(session_id: str) -> Stored | None:
    """None: there is no such session, also where the id is no name of a file."""
    if not session_id or "/" in session_id or session_id.startswith("."):
        return None
    for path in _folder().glob(f"*/{session_id}.jsonl"):
        lines = [msgspec.json.decode(line, type=_Line) for line in path.read_bytes().splitlines()]
        return Stored(
            id=session_id,
            directory=lines[0].cwd or "",
            settings=msgspec.json.decode(path.with_suffix(".settings.json").read_bytes(), type=Settings),
            messages=[line.message for line in lines if line.message is not None],
        )
    return None


def _message(message: Message) -> bytes:
    line: dict[str, Any] = {"type": "message", "id": message.id, "message": message}
    return encode(line)
