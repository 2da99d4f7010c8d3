"""The conversation on disk: one JSON line per record, each on the disk before it counts as said.

The first line says where the conversation takes place, `{"role": "about", "directory": ...}`; files of earlier versions
have none and get one when something is added. What was said is `{"role": "user"|"thought"|"agent", "anchor": ...,
"text": ..., "partial"?: true}`, `{"role": "allow", "tool": ...}` is a permission that was given for the whole session,
and `{"role": "copy", ...}` belongs to `copies`. A torn last line, left by a crash, is cut off before anything is added.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any, cast

Record = dict[str, Any]
SAID = ("user", "thought", "agent")


class HistoryError(Exception):
    """The conversation cannot be opened as asked. `reason` is stable."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class History:
    def __init__(self, path: str, directory: str, records: list[Record]) -> None:
        self._path = path
        self.directory = directory
        self.records = records
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    @classmethod
    def create(cls, folder: str, session: str, directory: str = "") -> History:
        """A conversation that has no file before its first message."""
        path = path_of(folder, session)
        if os.path.exists(path) and load(path)[1]:
            raise HistoryError("already_in_use", f"session {session} is already in use")
        return cls(path, directory, [])

    @classmethod
    def resume(cls, folder: str, session: str, cut_at: str | None = None, directory: str = "") -> History:
        path = path_of(folder, session)
        known, records = read(folder, session)
        history = cls(path, known or directory, records)
        if cut_at is not None:
            history.records = _cut(records, cut_at)
            history._replace()
        return history

    @classmethod
    def fork(
        cls, folder: str, source: str, session: str, cut_at: str | None = None, directory: str = ""
    ) -> History:
        """A new conversation with the beginning of another one, which is only read."""
        history = cls.create(folder, session, directory)
        _, records = read(folder, source)
        if cut_at is not None:
            records = _cut(records, cut_at)
        history.records = [_of_the_source(record) for record in records]
        history._replace()
        return history

    @property
    def messages(self) -> list[Record]:
        """What was said and thought, by both."""
        return [record for record in self.records if record["role"] in SAID]

    @property
    def allowed(self) -> set[str]:
        return {record["tool"] for record in self.records if record["role"] == "allow"}

    def add(self, record: Record) -> None:
        """Returns when the record is on the disk."""
        with self._lock:
            if self._descriptor is None:
                self._begin(record)
            else:
                _write(self._descriptor, _encode(record))
                os.fsync(self._descriptor)
            self.records.append(record)

    def _begin(self, record: Record) -> None:
        """Write the file anew, without the torn line that a crash may have left, and not before there is a message."""
        self._replace(record)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)

    def _replace(self, *more: Record) -> None:
        """Write the whole file anew, so that a crash leaves the old one or the new one."""
        about = [{"role": "about", "directory": self.directory}] if self.directory else []
        store(self._path, b"".join(map(_encode, [*about, *self.records, *more])))


def path_of(folder: str, session: str) -> str:
    return os.path.join(folder, f"{session}.jsonl")


def has_messages(folder: str, session: str) -> bool:
    """At least one message was stored: a person's, for with that a conversation begins."""
    try:
        with open(path_of(folder, session), "rb") as file:
            first = file.readline()
            if first.startswith(b'{"role":"about"'):
                first = file.readline()
            return first.endswith(b"\n")
    except FileNotFoundError:
        return False


def read(folder: str, session: str) -> tuple[str, list[Record]]:
    """The directory of a stored conversation, empty if it is not known, and all of its records."""
    path = path_of(folder, session)
    directory, records = load(path) if os.path.exists(path) else ("", [])
    if not records:
        raise HistoryError("not_found", f"no conversation {session}")
    return directory, records


def load(path: str, limit: int = -1) -> tuple[str, list[Record]]:
    """What the whole lines in the first `limit` bytes of a file say."""
    with open(path, "rb") as file:
        *whole, _torn = file.read(limit).split(b"\n")
    try:
        records = [_checked(json.loads(line)) for line in whole]
    except ValueError:
        raise HistoryError("damaged", f"{os.path.basename(path)} is damaged") from None
    about = records.pop(0) if records and records[0]["role"] == "about" else {}
    return str(about.get("directory", "")), records


def store(path: str, data: bytes) -> None:
    """A file of ours, whole or not at all."""
    draft = f"{path}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(draft, path)
    _sync_folder(path)


def _checked(record: object) -> Record:
    """Somebody else's JSON lines are no conversation."""
    if not isinstance(record, dict):
        raise ValueError
    known = cast("Record", record)
    role = known.get("role")
    needed = {"allow": ("tool",), "copy": ("path",), "about": ()}.get(
        str(role), ("text", "anchor") if role in SAID else None
    )
    if needed is None or not all(isinstance(known.get(name), str) for name in needed):
        raise ValueError
    return known


def _cut(records: list[Record], anchor: str) -> list[Record]:
    """Up to the anchor. Copies of files are kept: what was changed after it may still have to be restored."""
    for index, record in enumerate(records):
        if record.get("anchor") == anchor:
            later = [kept for kept in records[index + 1 :] if kept["role"] == "copy"]
            return [*records[: index + 1], *later]
    raise HistoryError("unknown_anchor", f"no message {anchor} in this conversation")


def _of_the_source(record: Record) -> Record:
    """A fork knows which files its source has changed, but it has none of the copies."""
    if record["role"] != "copy":
        return record
    return {"role": "copy", "path": record["path"], "skipped": "was changed before the fork"}


def _encode(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
