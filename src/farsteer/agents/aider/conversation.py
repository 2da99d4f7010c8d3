"""A conversation on disk. The standard library only: the worker uses it in aider's own environment."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from contextlib import suppress
from typing import Any

Json = dict[str, Any]

INTERRUPTED = "I see that you interrupted my previous reply."
"""What aider itself notes as the answer to a message that was broken off."""


def exists(folder: str, native_id: str) -> bool:
    """Return whether a conversation is stored. It is from its first message on."""
    return os.path.isfile(_path(folder, native_id))


def delete(folder: str, native_id: str) -> None:
    """Delete a conversation with its attachments. Idempotent."""
    for name in (_path(folder, native_id), f"{_path(folder, native_id)}.new"):
        with suppress(FileNotFoundError):
            os.unlink(name)
    shutil.rmtree(os.path.join(folder, "attachments", _as_uuid(native_id)), ignore_errors=True)


class StartFailed(Exception):
    """The conversation cannot be opened. `args` are the reason, which Farsteer knows, and a message."""


class Conversation:
    """The conversation on disk: a JSON line per record, synced before it counts.

    A `prompt` is written before its turn runs, a `turn` at its end: how many messages for the model it keeps of those
    before it, and which it adds. A prompt without a turn is one during which the process died.
    """

    def __init__(self, folder: str, session: str) -> None:
        self.id = _as_uuid(session)
        self._path = _path(folder, session)
        self._size: int | None = None
        """The size of the file, once it is known to end with a whole line."""
        self.records: list[Json] = []
        self.saved: list[Json] = []
        """The messages for the model, as the records have them."""
        self.messages: list[Json] = []
        """The same, and the prompts that a process died with."""

    def open(self, request: Json) -> None:
        """Open as asked. Raises StartFailed, and then nothing has changed."""
        folder, cut, source = os.path.dirname(self._path), request.get("cutAt"), request.get("forkOf")
        self.records = _read_records(self._path)
        exists = any(record["type"] == "prompt" for record in self.records)
        if request["start"] == "resume":
            if not exists:
                raise StartFailed("not_found", f"no conversation {request['session']}")
        elif exists:
            raise StartFailed("already_in_use", f"the conversation {request['session']} exists")
        else:
            self.records = [{"type": "about", "version": 1, "directory": os.getcwd()}]
        if source is not None:
            copied = [r for r in _read_records(_path(folder, source)) if r["type"] != "about"]
            if not copied:
                raise StartFailed("not_found", f"no conversation {source}")
            self.records += copied
        if cut is not None:
            # The prompt of a turn has its anchor too, also if the process died before the end of the turn.
            ends = [number for number, record in enumerate(self.records) if record.get("anchor") == cut]
            if not ends:
                raise StartFailed("unknown_anchor", f"the conversation has no message {cut}")
            del self.records[ends[-1] + 1 :]
        if source is not None or cut is not None:
            self._rewrite()
        self._replay()

    def _replay(self) -> None:
        unanswered: list[Json] = []
        for record in self.records:
            if record["type"] == "prompt":
                unanswered.append(record)
            elif record["type"] == "turn":
                self.saved = [*self.saved[: record["keep"]], *record["add"]]
                unanswered.clear()
        self.messages = [*self.saved]
        for record in unanswered:
            self.messages.append({"role": "user", "content": record["text"]})
            self.messages.append({"role": "assistant", "content": INTERRUPTED})

    def last(self, name: str) -> Any:
        """Return a field of the last turn, None if there is none."""
        return next((r.get(name) for r in reversed(self.records) if r["type"] == "turn"), None)

    def end_turn(self, messages: list[Json], **fields: Any) -> None:
        keep = 0
        while keep < min(len(messages), len(self.saved)) and messages[keep] == self.saved[keep]:
            keep += 1
        self.saved = [*messages]
        self.append({"type": "turn", "keep": keep, "add": messages[keep:], **fields})

    def append(self, record: Json) -> None:
        self.records.append(record)
        # The first record is written with the first prompt: before it nothing is stored.
        new = self.records if len(self.records) == 2 and not os.path.exists(self._path) else [record]
        size = _whole_size(self._path) if self._size is None else self._size
        with open(self._path, "r+b" if size else "wb") as file:
            file.seek(size)
            file.truncate()
            self._write(file, new)
            self._size = file.tell()

    def _rewrite(self) -> None:
        written = f"{self._path}.new"
        with open(written, "wb") as file:
            self._write(file, self.records)
        os.replace(written, self._path)

    def _write(self, file: Any, records: list[Json]) -> None:
        file.write(b"".join(json.dumps(record).encode() + b"\n" for record in records))
        file.flush()
        os.fsync(file.fileno())


def _path(folder: str, session: str) -> str:
    return os.path.join(folder, f"{_as_uuid(session)}.jsonl")


def _as_uuid(text: str) -> str:
    return str(uuid.UUID(text))


def _read_records(path: str) -> list[Json]:
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


def _whole_size(path: str) -> int:
    """Return the size without an incomplete last line, which a crash has left."""
    try:
        with open(path, "rb") as file:
            return file.read().rfind(b"\n") + 1
    except FileNotFoundError:
        return 0
