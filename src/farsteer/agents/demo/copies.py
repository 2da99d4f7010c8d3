"""Copies of files as they were before the agent changed them, so that a rewind can bring them back.

A copy is a file named by its digest in a folder beside the conversation, on the disk before the record that names it,
which is there before the change. The record stands in the conversation behind the message that led to the change, so
what a file was when a message was sent is its first copy after it. What a shell command changes is not noticed.

A cut keeps the copies. A fork begins with none of them: files that its source changed are named and left alone.
"""

from __future__ import annotations

import os
import stat
import threading
from typing import Any

from farsteer.agents.demo.history import History, Record, store

LARGEST = 4 * 1024 * 1024
"""A file above it is not copied."""
ALTOGETHER = 32 * 1024 * 1024
"""Copies of one conversation; past it no more are made."""
_REASON_CHARS = 500


class Unrestorable(Exception):
    """Left alone on purpose; the message says why."""


class Copies:
    def __init__(self, folder: str, directory: str, history: History) -> None:
        self._folder = folder
        self._directory = os.path.realpath(directory)
        self._history = history
        self._used: int | None = None
        self.changing = threading.Lock()
        """Held over a copy and the change it is for, and while a message is stored: which was first is certain."""

    def keep(self, path: str) -> None:
        """Copy the file that is about to change. `path` is real and in the directory. Raises OSError."""
        name = os.path.relpath(path, self._directory)
        for record in reversed(self._history.records):
            if record["role"] == "user":
                break
            if record["role"] == "copy" and record["path"] == name:
                return
        self._history.add({"role": "copy", "path": name, **self._copied(path)})

    def restore(self, message: str, after: str | None) -> dict[str, Any]:
        """Make the files what they were when that message was sent, and tell which are and which are not."""
        found = self._after(message, after)
        if found is None:
            return {"status": "failed", "restored": [], "skipped": [], "reason": "there is no such message"}
        wanted: dict[str, Record] = {}
        for record in found:
            if record["role"] == "copy":
                wanted.setdefault(record["path"], record)
        restored: list[str] = []
        skipped: dict[str, str] = {}
        broken = False
        for name, record in wanted.items():
            try:
                self._bring_back(name, record)
            except Unrestorable as reason:
                skipped[name] = f"{name} {reason}"
            except OSError as error:
                skipped[name], broken = f"{name}: {error.strerror or error}", True
            else:
                restored.append(name)
        status = "full" if not skipped else "failed" if broken and not restored else "partial"
        reason = "; ".join(skipped.values())[:_REASON_CHARS] or None
        return {"status": status, "restored": restored, "skipped": [*skipped], "reason": reason}

    def lose(self) -> None:
        """For those who want to see a restore fail."""
        import shutil

        shutil.rmtree(self._folder, ignore_errors=True)
        self._used = None

    def _after(self, message: str, after: str | None) -> list[Record] | None:
        records = self._history.records
        sent = [index for index, record in enumerate(records) if record["role"] == "user"]
        for index in sent:
            if records[index]["anchor"] == message:
                return records[index:]
        # An older message has another name: it is the first behind the anchor, or of all.
        begin = -1 if after is None else _index(records, after)
        return None if begin is None else next((records[index:] for index in sent if index > begin), None)

    # -- copying

    def _copied(self, path: str) -> Record:
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        if not stat.S_ISREG(found.st_mode):
            return {"skipped": "is no regular file"}
        if found.st_size > LARGEST:
            return {"skipped": "is too large to be copied"}
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST or not self._fits(len(data)):
            return {"skipped": "is too large to be copied"}
        return {"copy": self._store(data), "mode": stat.S_IMODE(found.st_mode)}

    def _fits(self, size: int) -> bool:
        if self._used is None:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with os.scandir(self._folder) as entries:
                self._used = sum(entry.stat().st_size for entry in entries)
        return self._used + size <= ALTOGETHER

    def _store(self, data: bytes) -> str:
        import hashlib

        digest = hashlib.sha256(data).hexdigest()
        path = os.path.join(self._folder, digest)
        if not os.path.exists(path):
            store(path, data)
            self._used = (self._used or 0) + len(data)
        return digest

    # -- bringing back

    def _bring_back(self, name: str, record: Record) -> None:
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
        _put(path, data, int(record.get("mode", 0o600)))


def folder_of(state: str, session: str) -> str:
    return os.path.join(state, f"{session}.copies")


def _index(records: list[Record], anchor: str) -> int | None:
    return next((index for index, record in enumerate(records) if record.get("anchor") == anchor), None)


def _put(path: str, data: bytes, mode: int) -> None:
    """Whole or not at all, and in nobody's way."""
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
