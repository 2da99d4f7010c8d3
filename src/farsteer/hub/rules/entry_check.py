"""Checks the entries and deltas that a runner sends, before they are stored or published.

What is stored must decode as an entry of its place in its session's log: exports, forks, rewinds and clients rely on
it. An entry that does not is replaced by a notice in its place, so that the log has no gap, the runner does not send
the entry again and again, and the other sessions of the machine go on.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from farsteer.core.events import (
    KINDS,
    Delta,
    Entry,
    Notice,
    Other,
    Rewound,
    decode_entry,
    kind_of,
    make_entry,
)
from farsteer.core.json_limits import JsonLimits, check_limits
from farsteer.core.text import clean_line
from farsteer.link.messages import EncodedEntry, encode_entry

MAX_ENTRY_BYTES = 32 * 1024 * 1024
MAX_DELTA_CHARS = 4 * 1024 * 1024
_MAX_INT = 2**53
_MAX_ID = 500
_MAX_REASON = 200

_LIMITS = JsonLimits(depth=100, values=150_000)
"""More than an agent may send at once, because its runner adds to that."""

_decoder = msgspec.json.Decoder(Entry)


class CheckedEntries(Struct, frozen=True):
    entries: list[EncodedEntry]
    faults: Sequence[str] = ()
    """Why entries were replaced."""


def check_entries(session_id: str, entries: list[EncodedEntry], now: int) -> CheckedEntries:
    """Return the entries as they may be stored. `now` is the time of the notices that replace invalid ones."""
    for given in entries:
        if not _is_valid(session_id, given):
            return _check_each(session_id, entries, now)
    return CheckedEntries(entries)


def _is_valid(session_id: str, given: EncodedEntry) -> bool:
    """Whether an entry may be stored as it is. False only means that it must be looked at more closely."""
    body = bytes(given.body)
    if len(body) > MAX_ENTRY_BYTES:
        return False
    try:
        check_limits(body, _LIMITS)
        if not body.isascii():
            str(body, "utf-8")  # Decoding does not look into fields that it does not know.
        entry = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    seq, content = given.seq, entry.content
    return (
        given.kind == kind_of(content)
        and entry.seq == seq
        and entry.id == f"{session_id}:{seq}"
        and (given.kind != "rewound" or _is_in_place(session_id, seq, entry))
    )


def _check_each(session_id: str, entries: list[EncodedEntry], now: int) -> CheckedEntries:
    checked: list[EncodedEntry] = []
    faults: list[str] = []
    for given in entries:
        try:
            checked.append(_check(session_id, given))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            fault = clean_line(f"entry {given.seq} {_reason(error)}", _MAX_REASON)
            notice = Notice(
                text=f"The machine sent an entry that is not valid: {fault}",
                level="error",
                code="entry_invalid",
            )
            faults.append(fault)
            checked.append(encode_entry(make_entry(session_id, given.seq, notice, now)))
    return CheckedEntries(checked, faults)


def _check(session_id: str, given: EncodedEntry) -> EncodedEntry:
    """Return one entry as it may be stored. Raises ValueError with the reason if it may not."""
    body = bytes(given.body)
    if len(body) > MAX_ENTRY_BYTES:
        raise ValueError(f"has {len(body)} bytes, more than {MAX_ENTRY_BYTES}")
    str(body, "utf-8")
    check_limits(body, _LIMITS)
    try:
        entry, known = _decoder.decode(body), True
    except msgspec.ValidationError:
        entry, known = decode_entry(body), False
    if not _is_in_place(session_id, given.seq, entry):
        raise ValueError("is not of its place in the log")
    content = entry.content
    kind = content.native_kind if isinstance(content, Other) and not known else kind_of(content)
    if given.kind != kind:
        raise ValueError(f"is of kind {kind}, not {given.kind}")
    if known or (kind not in KINDS and kind != str(None)):
        return given
    # A known kind with other fields, perhaps of a newer version, or no kind at all: stored as it is read.
    return encode_entry(entry)


def _is_in_place(session_id: str, seq: int, entry: Entry) -> bool:
    return (
        entry.seq == seq
        and entry.id == f"{session_id}:{seq}"
        and (not isinstance(entry.content, Rewound) or 1 <= entry.content.first_seq <= seq)
    )


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(error, msgspec.MsgspecError):
        return f"cannot be decoded: {error}"
    return "is nested too deeply" if isinstance(error, RecursionError) else str(error)


def check_deltas(deltas: list[Delta]) -> list[Delta]:
    """Return the deltas that may be published. One that is dropped is not lost: its message is stored later."""
    return [
        delta
        for delta in deltas
        if len(delta.text) <= MAX_DELTA_CHARS
        and len(delta.message_id) <= _MAX_ID
        and 0 <= delta.offset <= _MAX_INT
        and 0 <= delta.after <= _MAX_INT
    ]
