"""Copies of files from before the agent changed them, so that a rewind can restore them.

A copy is a file named by its digest, in a folder next to the conversation. It is on disk before the record that names
it, and the record is on disk before the file changes. The record follows the message that caused the change, so the
state of a file when a message was sent is its first copy after that message. Changes by shell commands are not copied.

A cut keeps all copies. A fork starts without copies: files that its source changed are reported and not restored.
"""

from __future__ import annotations

import os
import stat
import threading
from typing import Any

from farsteer.agents.demo.history import History, Record, write_atomically

MAX_FILE_BYTES = 4 * 1024 * 1024
"""Larger files are not copied."""
MAX_TOTAL_BYTES = 32 * 1024 * 1024
"""When the copies of one conversation have reached this size, no more are made."""
_REASON_CHARS = 500


class Unrestorable(Exception):
    """The file is deliberately not restored; the message says why."""


class FileCopies:
    def __init__(self, folder: str, directory: str, history: History) -> None:
        self._folder = folder
        self._directory = os.path.realpath(directory)
        self._history = history
        self._used: int | None = None
        self.lock = threading.Lock()
        """Held over a copy and its change, and while a message is stored, so that their order is certain."""

    def save(self, path: str) -> None:
        """Copy a file that is about to change. `path` must be a real path in the directory. Raises OSError."""
        name = os.path.relpath(path, self._directory)
        for record in reversed(self._history.records):
            if record["role"] == "user":
                break
            if record["role"] == "copy" and record["path"] == name:
                return
        self._history.add({"role": "copy", "path": name, **self._copy(path)})

    def restore(self, message: str, after: str | None) -> dict[str, Any]:
        """Restore the files to their state when a message was sent. Returns the fields of a `restored` line."""
        found = self._records_from(message, after)
        if found is None:
            return {"status": "failed", "restored": [], "skipped": [], "reason": "there is no such message"}
        wanted: dict[str, Record] = {}
        for record in found:
            if record["role"] == "copy":
                wanted.setdefault(record["path"], record)
        restored: list[str] = []
        skipped: dict[str, str] = {}
        failed = False
        for name, record in wanted.items():
            try:
                self._restore_file(name, record)
            except Unrestorable as reason:
                skipped[name] = f"{name} {reason}"
            except OSError as error:
                skipped[name], failed = f"{name}: {error.strerror or error}", True
            else:
                restored.append(name)
        status = "full" if not skipped else "failed" if failed and not restored else "partial"
        reason = "; ".join(skipped.values())[:_REASON_CHARS] or None
        return {"status": status, "restored": restored, "skipped": [*skipped], "reason": reason}

    def delete_all(self) -> None:
        """Delete all copies, to make a later restore fail."""
        import shutil

        shutil.rmtree(self._folder, ignore_errors=True)
        self._used = None

    def _records_from(self, message: str, after: str | None) -> list[Record] | None:
        """Return the records from a message on, or None if there is no such message."""
        records = self._history.records
        sent = [index for index, record in enumerate(records) if record["role"] == "user"]
        for index in sent:
            if records[index]["anchor"] == message:
                return records[index:]
        # A message that is stored under another id is the first one after the anchor, or the first of all.
        start = -1 if after is None else _find_anchor(records, after)
        return None if start is None else next((records[index:] for index in sent if index > start), None)

    def _copy(self, path: str) -> Record:
        """Copy a file. Returns the fields of its record: none if it does not exist, or why it is skipped."""
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        if not stat.S_ISREG(status.st_mode):
            return {"skipped": "is no regular file"}
        if status.st_size > MAX_FILE_BYTES:
            return {"skipped": "is too large to be copied"}
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES or not self._fits(len(data)):
            return {"skipped": "is too large to be copied"}
        return {"copy": self._store(data), "mode": stat.S_IMODE(status.st_mode)}

    def _fits(self, size: int) -> bool:
        if self._used is None:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with os.scandir(self._folder) as entries:
                self._used = sum(entry.stat().st_size for entry in entries)
        return self._used + size <= MAX_TOTAL_BYTES

    def _store(self, data: bytes) -> str:
        import hashlib

        digest = hashlib.sha256(data).hexdigest()
        path = os.path.join(self._folder, digest)
        if not os.path.exists(path):
            write_atomically(path, data)
            self._used = (self._used or 0) + len(data)
        return digest

    def _restore_file(self, name: str, record: Record) -> None:
        path = os.path.normpath(os.path.join(self._directory, name))
        if os.path.commonpath([self._directory, path]) != self._directory:
            raise Unrestorable("is outside of the directory")
        if os.path.realpath(path) != path:
            raise Unrestorable("is a link")
        if "skipped" in record:
            raise Unrestorable(record["skipped"])
        if "copy" not in record:
            _remove(path)
            return
        with open(os.path.join(self._folder, os.path.basename(str(record["copy"]))), "rb") as copy:
            data = copy.read()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _replace(path, data, int(record.get("mode", 0o600)))


def copies_path(state: str, session: str) -> str:
    return os.path.join(state, f"{session}.copies")


def _find_anchor(records: list[Record], anchor: str) -> int | None:
    return next((index for index, record in enumerate(records) if record.get("anchor") == anchor), None)


def _replace(path: str, data: bytes, mode: int) -> None:
    """Replace a file atomically, through a draft with a name that is not in use."""
    draft = f"{path}.{os.urandom(4).hex()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(descriptor, mode)
        os.replace(draft, path)
    except OSError:
        os.unlink(draft)
        raise


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return
