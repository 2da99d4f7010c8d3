"""What happens in a namespace, as a client meets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from farsteer.core.events import Delta, Entry, decode_entry


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One SyncEvent. `cursor` is where to resume after it; a delta, typing or presence has none."""

    type: str
    namespace: str | None = None
    session_id: str | None = None
    machine_id: str | None = None
    cursor: str | None = None
    entry: Entry | None = None
    """`message-received`: the new entry of the session's log."""
    delta: Delta | None = None
    """`message-delta`: a live fragment of a message that follows whole."""
    data: Any = None
    """The payload of every other type, as JSON values."""
    body: bytes = b"{}"
    """The whole event as it came, also what this version has no word for."""

    @property
    def raw(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True, slots=True)
class Gap(LiveEvent):
    """Something was missed and the hub cannot replay it: read again what you keep, then go on from here."""


class _Envelope(msgspec.Struct, rename="camel"):
    type: str = "unknown"
    namespace: str | None = None
    session_id: str | None = None
    machine_id: str | None = None
    cursor: str | None = None
    message: msgspec.Raw = msgspec.Raw()
    delta: msgspec.Raw = msgspec.Raw()
    data: Any = None
    typing: Any = None
    users: Any = None


_envelope = msgspec.json.Decoder(_Envelope)


def read_event(body: bytes, cursor: str | None = None) -> LiveEvent:
    """Read one SyncEvent; a part that a newer hub writes differently stays in `raw`."""
    try:
        found = _envelope.decode(body)
    except msgspec.ValidationError:
        return LiveEvent("unknown", cursor=cursor, body=body)
    return LiveEvent(
        type=found.type,
        namespace=found.namespace,
        session_id=found.session_id,
        machine_id=found.machine_id,
        cursor=found.cursor or cursor,
        entry=_entry(found.message),
        delta=_delta(found.delta),
        data=next((value for value in (found.data, found.typing, found.users) if value is not None), None),
        body=body,
    )


def _entry(raw: msgspec.Raw) -> Entry | None:
    if not raw:
        return None
    try:
        return decode_entry(raw)
    except msgspec.ValidationError:
        return None


def _delta(raw: msgspec.Raw) -> Delta | None:
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw, type=Delta)
    except msgspec.ValidationError:
        return None
