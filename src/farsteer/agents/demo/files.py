"""Files of the session's directory, and of no other place."""

from __future__ import annotations

import os

from farsteer.agents.demo.tools import Tool, ToolFailed
from farsteer.agents.demo.turn import Turn
from farsteer.core.modes import ToolKind

_SHOWN = 64 * 1024
_LARGEST = 1024 * 1024


def read(turn: Turn, name: str) -> Tool:
    path = inside(turn, name)

    def act(turn: Turn, call: str) -> str:
        text = _content(path)
        if text is None:
            raise ToolFailed(f"there is no file {name}")
        return text[:_SHOWN]

    return Tool("read", ToolKind.READ, f"Read {name}", act, arguments={"path": name}, path=path)


def write(turn: Turn, name: str, text: str) -> Tool:
    path = inside(turn, name)
    return _change("write", f"Write {name}", turn, name, _content(path), text)


def edit(turn: Turn, name: str, old: str, new: str) -> Tool:
    before = _content(inside(turn, name))
    if before is None:
        raise ToolFailed(f"there is no file {name}")
    if old not in before:
        raise ToolFailed(f"{name} does not contain {old!r}")
    return _change("edit", f"Edit {name}", turn, name, before, before.replace(old, new, 1))


def delete(turn: Turn, name: str) -> Tool:
    path = inside(turn, name)

    def act(turn: Turn, call: str) -> str:
        copies, path = turn.session.copies, inside(turn, name)
        with copies.changing:
            copies.keep(path)
            os.unlink(path)
        return f"deleted {name}"

    return Tool("delete", ToolKind.DELETE, f"Delete {name}", act, arguments={"path": name}, path=path)


def inside(turn: Turn, name: str) -> str:
    """The real path of `name`, if it is in the session's directory, also after every symbolic link."""
    directory = os.path.realpath(turn.session.directory)
    path = os.path.realpath(os.path.join(directory, name.replace("\0", "?")))
    if path == directory or os.path.commonpath([directory, path]) != directory:
        raise ToolFailed(f"{name} is outside of {directory}")
    return path


def _change(tool: str, title: str, turn: Turn, name: str, before: str | None, after: str) -> Tool:
    def act(turn: Turn, call: str) -> str:
        # What was approved is what happens: the file is looked at again.
        if _content(inside(turn, name)) != before:
            raise ToolFailed(f"{name} has changed since it was shown")
        copies, path = turn.session.copies, inside(turn, name)
        with copies.changing:
            copies.keep(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
                file.write(after)
        return f"wrote {len(after)} characters to {name}"

    diff = {"path": name, "old": before, "new": after}
    return Tool(tool, ToolKind.EDIT, title, act, arguments={"path": name}, path=inside(turn, name), diff=diff)


def _content(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolFailed(str(error)) from None
    if len(data) > _LARGEST:
        raise ToolFailed(f"{os.path.basename(path)} is larger than {_LARGEST} bytes")
    return data.decode(errors="replace")
