"""Live events as a client receives them, and the text of messages that are being streamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from farsteer.core.events import Delta, Entry, decode_entry
from farsteer.core.live_events import MessageDeltaEvent, MessageReceivedEvent, StoredEvent, SyncEvent
from farsteer.core.recent import RecentIds


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """Something that happened in the namespace. `docs/events.md` has an example of each type."""

    type: str
    namespace: str | None = None
    session_id: str | None = None
    machine_id: str | None = None
    cursor: str | None = None
    """Where to resume after this event; None for deltas, typing and presence, which are not stored."""
    content: SyncEvent | None = None
    """What happened, as an instance of the class of the type (`farsteer.events`).

    None if this version does not know the type or cannot read it, because a newer hub sent it; `raw` has everything.
    """
    body: bytes = b"{}"
    """The whole event as received, including fields that this version does not know."""

    @property
    def entry(self) -> Entry | None:
        """Of `message-received`: the new entry of the session's log."""
        return self.content.message if isinstance(self.content, MessageReceivedEvent) else None

    @property
    def delta(self) -> Delta | None:
        """Of `message-delta`: a part of a message that follows as an entry when it is complete."""
        return self.content.delta if isinstance(self.content, MessageDeltaEvent) else None

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


_decoder: msgspec.json.Decoder[SyncEvent] = msgspec.json.Decoder(SyncEvent)
_envelope_decoder = msgspec.json.Decoder(_Envelope)


def decode_event(body: bytes, cursor: str | None = None) -> LiveEvent:
    """Decode one live event.

    What a newer hub writes differently has no `content`, and an event with another envelope gets the type `unknown`;
    both are still complete in `raw`.

    Args:
        body: The JSON of the event.
        cursor: The cursor, if it came beside the event and not in it.
    """
    try:
        content = _decoder.decode(body)
    except msgspec.ValidationError:
        return _decode_envelope(body, cursor)
    return LiveEvent(
        type=str(content.__struct_config__.tag),
        namespace=content.namespace,
        session_id=getattr(content, "session_id", None),
        machine_id=getattr(content, "machine_id", None),
        cursor=content.cursor if isinstance(content, StoredEvent) else cursor,
        content=content,
        body=body,
    )


def _decode_envelope(body: bytes, cursor: str | None) -> LiveEvent:
    try:
        known = _envelope_decoder.decode(body)
    except msgspec.ValidationError:
        return LiveEvent("unknown", cursor=cursor, body=body)
    cursor = known.cursor or cursor
    return LiveEvent(
        known.type,
        known.namespace,
        known.session_id,
        known.machine_id,
        cursor,
        _new_entry(known, cursor),
        body,
    )


def _new_entry(known: _Envelope, cursor: str | None) -> MessageReceivedEvent | None:
    """An entry of a kind that this version does not know is an `Other`."""
    if not known.message or known.session_id is None:
        return None
    try:
        entry = decode_entry(known.message)
    except msgspec.ValidationError:
        return None
    return MessageReceivedEvent(
        namespace=known.namespace or "", cursor=cursor or "", session_id=known.session_id, message=entry
    )


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
