"""The conversation on disk: a JSON line per record, written and synced before it counts as sent.

The first record, `{"role": "about", "directory": ...}`, says where the conversation takes place. Files of earlier
versions have none; they get one with the next record. Messages are `{"role": "user"|"thought"|"agent", "anchor": ...,
"text": ..., "partial"?: true}`. `{"role": "allow", "tool": ...}` is a permission for the whole session, and
`{"role": "copy", ...}` belongs to `copies`. An incomplete last line, left by a crash, is removed before a record is
added.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any, cast

Record = dict[str, Any]
_MESSAGE_ROLES = ("user", "thought", "agent")


class HistoryError(Exception):
    """The conversation cannot be opened. `reason` is sent to the client."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class History:
    """The records of one conversation. Create it with `create`, `resume` or `fork`, which raise HistoryError."""

    def __init__(self, path: str, directory: str, records: list[Record]) -> None:
        self._path = path
        self.directory = directory
        self.records = records
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    @classmethod
    def create(cls, folder: str, session: str, directory: str = "") -> History:
        """Create a conversation. Its file is written with the first record."""
        path = history_path(folder, session)
        if os.path.exists(path) and load_records(path)[1]:
            raise HistoryError("already_in_use", f"session {session} is already in use")
        return cls(path, directory, [])

    @classmethod
    def resume(cls, folder: str, session: str, cut_at: str | None = None, directory: str = "") -> History:
        """Open a stored conversation. With `cut_at`, first remove what follows that anchor."""
        path = history_path(folder, session)
        known, records = read_conversation(folder, session)
        history = cls(path, known or directory, records)
        if cut_at is not None:
            history.records = _cut(records, cut_at)
            history._rewrite()
        return history

    @classmethod
    def fork(
        cls, folder: str, source: str, session: str, cut_at: str | None = None, directory: str = ""
    ) -> History:
        """Create a conversation with the records of `source`, up to `cut_at`. The source stays unchanged."""
        history = cls.create(folder, session, directory)
        _, records = read_conversation(folder, source)
        if cut_at is not None:
            records = _cut(records, cut_at)
        history.records = [_forked(record) for record in records]
        history._rewrite()
        return history

    @property
    def messages(self) -> list[Record]:
        """The messages and thoughts of both sides."""
        return [record for record in self.records if record["role"] in _MESSAGE_ROLES]

    @property
    def allowed_tools(self) -> set[str]:
        return {record["tool"] for record in self.records if record["role"] == "allow"}

    def add(self, record: Record) -> None:
        """Append a record. Returns when it is on disk."""
        with self._lock:
            if self._descriptor is None:
                # The first record of this process rewrites the file, which removes an incomplete last line.
                self._rewrite(record)
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            else:
                _write_all(self._descriptor, _encode(record))
                os.fsync(self._descriptor)
            self.records.append(record)

    def _rewrite(self, *more: Record) -> None:
        """Replace the file atomically: a crash leaves the old or the new one."""
        about = [{"role": "about", "directory": self.directory}] if self.directory else []
        write_atomically(self._path, b"".join(map(_encode, [*about, *self.records, *more])))


def history_path(folder: str, session: str) -> str:
    return os.path.join(folder, f"{session}.jsonl")


def has_messages(folder: str, session: str) -> bool:
    """Whether at least one message is stored. The first record after `about` is always a person's message."""
    try:
        with open(history_path(folder, session), "rb") as file:
            first = file.readline()
            if first.startswith(b'{"role":"about"'):
                first = file.readline()
            return first.endswith(b"\n")
    except FileNotFoundError:
        return False


def read_conversation(folder: str, session: str) -> tuple[str, list[Record]]:
    """Return the directory of a stored conversation, empty if unknown, and its records. Raises HistoryError."""
    path = history_path(folder, session)
    directory, records = load_records(path) if os.path.exists(path) else ("", [])
    if not records:
        raise HistoryError("not_found", f"no conversation {session}")
    return directory, records


def load_records(path: str, limit: int = -1) -> tuple[str, list[Record]]:
    """Return the directory and the records of the complete lines in the first `limit` bytes of a file."""
    with open(path, "rb") as file:
        *lines, _incomplete = file.read(limit).split(b"\n")
    try:
        records = [_check_record(json.loads(line)) for line in lines]
    except ValueError:
        raise HistoryError("damaged", f"{os.path.basename(path)} is damaged") from None
    about = records.pop(0) if records and records[0]["role"] == "about" else {}
    return str(about.get("directory", "")), records


def write_atomically(path: str, data: bytes) -> None:
    """Write a private file and sync it, so that it exists as a whole or not at all."""
    draft = f"{path}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(draft, path)
    _sync_folder(path)


def _check_record(record: object) -> Record:
    """Raise ValueError for JSON that is not a record."""
    if not isinstance(record, dict):
        raise ValueError
    known = cast("Record", record)
    role = known.get("role")
    needed = {"allow": ("tool",), "copy": ("path",), "about": ()}.get(
        str(role), ("text", "anchor") if role in _MESSAGE_ROLES else None
    )
    if needed is None or not all(isinstance(known.get(name), str) for name in needed):
        raise ValueError
    return known


def _cut(records: list[Record], anchor: str) -> list[Record]:
    """Return the records up to the anchor, and all copies of files: a later restore may need them."""
    for index, record in enumerate(records):
        if record.get("anchor") == anchor:
            copies = [later for later in records[index + 1 :] if later["role"] == "copy"]
            return [*records[: index + 1], *copies]
    raise HistoryError("unknown_anchor", f"no message {anchor} in this conversation")


def _forked(record: Record) -> Record:
    """Return the record for a fork, which knows the files that its source changed but has no copies of them."""
    if record["role"] != "copy":
        return record
    return {"role": "copy", "path": record["path"], "skipped": "was changed before the fork"}


def _encode(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
