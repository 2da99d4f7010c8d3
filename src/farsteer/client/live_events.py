"""Live events as a client receives them, and the text of messages that are being streamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from farsteer.core.events import Delta, Entry, decode_entry
from farsteer.core.recent import RecentIds


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """Something that happened in the namespace. `docs/api.md` lists the types."""

    type: str
    namespace: str | None = None
    session_id: str | None = None
    machine_id: str | None = None
    cursor: str | None = None
    """Where to resume after this event; None for deltas, typing and presence, which are not stored."""
    entry: Entry | None = None
    """Of `message-received`: the new entry of the session's log."""
    delta: Delta | None = None
    """Of `message-delta`: a part of a message that follows as an entry when it is complete."""
    data: Any = None
    """The payload of every other type, as JSON values."""
    body: bytes = b"{}"
    """The whole event as received, including fields that this version does not know."""

    @property
    def raw(self) -> dict[str, Any]:
        """The whole event as JSON values."""
        return msgspec.json.decode(self.body)


@dataclass(frozen=True, slots=True)
class Gap(LiveEvent):
    """Events were missed that the hub can no longer replay. Read again what you keep, then continue."""


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


_envelope_decoder = msgspec.json.Decoder(_Envelope)


def decode_event(body: bytes, cursor: str | None = None) -> LiveEvent:
    """Decode one live event.

    An entry or delta that a newer hub writes differently becomes None, and an event with another envelope gets the
    type `unknown`; both are still complete in `raw`.

    Args:
        body: The JSON of the event.
        cursor: The cursor, if it came beside the event and not in it.
    """
    try:
        envelope = _envelope_decoder.decode(body)
    except msgspec.ValidationError:
        return LiveEvent("unknown", cursor=cursor, body=body)
    payloads = (envelope.data, envelope.typing, envelope.users)
    return LiveEvent(
        type=envelope.type,
        namespace=envelope.namespace,
        session_id=envelope.session_id,
        machine_id=envelope.machine_id,
        cursor=envelope.cursor or cursor,
        entry=_decode_entry(envelope.message),
        delta=_decode_delta(envelope.delta),
        data=next((payload for payload in payloads if payload is not None), None),
        body=body,
    )


def _decode_entry(raw: msgspec.Raw) -> Entry | None:
    if not raw:
        return None
    try:
        return decode_entry(raw)
    except msgspec.ValidationError:
        return None


def _decode_delta(raw: msgspec.Raw) -> Delta | None:
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw, type=Delta)
    except msgspec.ValidationError:
        return None


class StreamedText:
    """Returns each part of a message's text once, although it arrives twice: in deltas, then complete.

    Text of a delta that was lost is returned when the complete message arrives.
    """

    def __init__(self) -> None:
        self._returned: dict[str, int] = {}
        """How many characters of each unfinished message were returned."""
        self._completed = RecentIds()

    def add_delta(self, delta: Delta) -> str:
        """Return the part of `delta` that is new; nothing if text before it is missing."""
        returned = self._returned.get(delta.message_id, 0)
        if self.is_complete(delta.message_id) or delta.offset > returned:
            return ""
        new = delta.text[returned - delta.offset :]
        self._returned[delta.message_id] = returned + len(new)
        return new

    def complete(self, message_id: str, text: str) -> str:
        """Return the part of the complete message that is new."""
        if self.is_complete(message_id):
            return ""
        self._completed.add(message_id)
        return text[self._returned.pop(message_id, 0) :]

    def is_complete(self, message_id: str) -> bool:
        return message_id in self._completed
