"""Rows of a database that cannot be decoded: they are set aside in a file beside it, and the rest is served."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from farsteer.core.clock import now_ms
from farsteer.core.wire import WireStruct, decode, encode
from farsteer.storage.home import open_private, read_private

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_MAX_FILE = 64 * 1024 * 1024
"""A larger file takes no more rows; the log names them."""


class DamagedRow(Exception):
    """A row of `table` that cannot be decoded. `key` identifies it."""

    def __init__(self, table: str, key: int | str, session_id: str | None, body: Any, reason: str) -> None:
        super().__init__(f"a row of {table} cannot be decoded: {reason}")
        self.table = table
        self.key = key
        self.session_id = session_id
        self.body = body
        self.reason = reason


class QuarantinedRow(WireStruct):
    """A line of the file."""

    table: str
    key: int | str
    reason: str
    at: int
    session_id: str | None = None
    body: bytes = b""


def decode_row(body: Any, kind: type[T], table: str, key: int | str, session_id: str | None) -> T:
    """Decode a column of a row. Raises DamagedRow."""
    try:
        return decode(body, kind)
    except (msgspec.DecodeError, TypeError) as error:
        raise DamagedRow(table, key, session_id, body, str(error)) from None


_raw_decoder = msgspec.json.Decoder(msgspec.Raw)


def is_readable_json(body: Any) -> bool:
    try:
        _raw_decoder.decode(body)
        str(body, "utf-8")
    except (msgspec.DecodeError, TypeError, UnicodeDecodeError, RecursionError):
        return False
    return True


class Quarantine:
    """The file beside a database, for example `hub.damaged.jsonl`. A person may read it, repair or remove it."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.path = database.with_name(f"{database.stem}.damaged.jsonl")
        self._added: set[tuple[str, int | str, int]] = set()

    def add(self, row: DamagedRow) -> None:
        """Write a row to the file, once, and name it in the log."""
        seen = row.table, row.key, hash(row.body)
        if seen in self._added:
            return
        self._added.add(seen)
        _logger.error(
            "%s: a row of %s cannot be decoded (session %s, row %s: %s); it was moved to %s",
            self._database, row.table, row.session_id, row.key, row.reason, self.path,
        )  # fmt: skip
        body = row.body if isinstance(row.body, bytes) else str(row.body).encode()
        line = QuarantinedRow(row.table, row.key, row.reason, now_ms(), row.session_id, body)
        file = open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with open(file, "ab") as stream:
            if stream.tell() < _MAX_FILE:
                stream.write(encode(line) + b"\n")
                stream.flush()
                os.fsync(file)

    def read(self) -> list[QuarantinedRow]:
        lines = (read_private(self.path) or b"").splitlines()
        return [decode(line, QuarantinedRow) for line in lines]
