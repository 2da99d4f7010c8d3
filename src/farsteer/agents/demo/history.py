"""The conversation on disk: one JSON line per message, each on the disk before it counts as said.

A record is `{"role": "user"|"agent", "anchor": ..., "text": ...}`, or `{"role": "allow", "tool": ...}` for a permission
that was given for the whole session. A torn last line, left by a crash, is cut off before anything is added.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any


class HistoryError(Exception):
    """The conversation cannot be opened as asked. `reason` is stable."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class History:
    def __init__(self, path: str, records: list[dict[str, Any]]) -> None:
        self._path = path
        self.records = records
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    @classmethod
    def create(cls, folder: str, session: str) -> History:
        """A conversation that has no file before its first message."""
        path = _path(folder, session)
        if os.path.exists(path) and _load(path):
            raise HistoryError("already_in_use", f"session {session} is already in use")
        return cls(path, [])

    @classmethod
    def resume(cls, folder: str, session: str, cut_at: str | None = None) -> History:
        path = _path(folder, session)
        records = _existing(path, session)
        history = cls(path, records)
        if cut_at is not None:
            history.records = _cut(records, cut_at)
            history._replace()
        return history

    @classmethod
    def fork(cls, folder: str, source: str, session: str, cut_at: str | None = None) -> History:
        """A new conversation with the beginning of another one, which is only read."""
        history = cls.create(folder, session)
        records = _existing(_path(folder, source), source)
        history.records = records if cut_at is None else _cut(records, cut_at)
        history._replace()
        return history

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [record for record in self.records if record["role"] != "allow"]

    @property
    def allowed(self) -> set[str]:
        return {record["tool"] for record in self.records if record["role"] == "allow"}

    def add(self, record: dict[str, Any]) -> None:
        """Returns when the record is on the disk."""
        with self._lock:
            if self._descriptor is None:
                # Anew, without the torn line that a crash may have left at the end.
                self._replace()
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            _write(self._descriptor, _encode(record))
            os.fsync(self._descriptor)
            self.records.append(record)

    def _replace(self) -> None:
        """Write the whole file anew, so that a crash leaves the old one or the new one."""
        draft = f"{self._path}.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write(descriptor, b"".join(map(_encode, self.records)))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(draft, self._path)
        _sync_folder(self._path)


def has_messages(folder: str, session: str) -> bool:
    """At least one message was stored: a person's, for with that a conversation begins."""
    try:
        with open(_path(folder, session), "rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


def _path(folder: str, session: str) -> str:
    return os.path.join(folder, f"{session}.jsonl")


def _existing(path: str, session: str) -> list[dict[str, Any]]:
    records = _load(path) if os.path.exists(path) else []
    if not records:
        raise HistoryError("not_found", f"no conversation {session}")
    return records


def _cut(records: list[dict[str, Any]], anchor: str) -> list[dict[str, Any]]:
    for index, record in enumerate(records):
        if record.get("anchor") == anchor:
            return records[: index + 1]
    raise HistoryError("unknown_anchor", f"no message {anchor} in this conversation")


def _load(path: str) -> list[dict[str, Any]]:
    with open(path, "rb") as file:
        *whole, _torn = file.read().split(b"\n")
    try:
        return [json.loads(line) for line in whole]
    except ValueError:
        raise HistoryError("damaged", f"{os.path.basename(path)} is damaged") from None


def _encode(record: dict[str, Any]) -> bytes:
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
