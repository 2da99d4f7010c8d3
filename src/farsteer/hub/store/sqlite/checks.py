"""Whether what is stored can be read by clients, to whom it is passed on as it is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from farsteer.hub.feed import MESSAGE
from farsteer.storage.quarantine import DamagedRow


class _EntryHead(msgspec.Struct):
    seq: int
    content: msgspec.Raw


_entry_decoder = msgspec.json.Decoder(_EntryHead)
_json_decoder = msgspec.json.Decoder(msgspec.Raw)


def check_entry(body: bytes, table: str, session_id: str, seq: int) -> bytes:
    """Return an encoded entry. Raises DamagedRow if clients could not read it."""
    return _check(_entry_decoder.decode, body, table, f"{session_id}:{seq}", session_id)


def check_payload(body: bytes | None, type: str, cursor: int, subject: str | None) -> bytes | None:
    """Return the payload of an event of the feed. Raises DamagedRow if clients could not read it."""
    if body is None:
        return None
    decoder = _entry_decoder if type == MESSAGE else _json_decoder
    return _check(decoder.decode, body, "log", cursor, subject)


def _check(
    check: Callable[[bytes], object], body: bytes, table: str, key: int | str, session_id: str | None
) -> bytes:
    try:
        check(body)
        str(body, "utf-8")
    except (msgspec.DecodeError, TypeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedRow(table, key, session_id, body, str(error)) from None
    return body
