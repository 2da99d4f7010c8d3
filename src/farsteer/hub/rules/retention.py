"""Which sessions a retention rule removes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from farsteer.core.retention import RemovalReason, SessionRemoval

_DAY_MS = 86_400_000
_Positive = Annotated[int, Meta(gt=0)]


class RetentionRule(Struct, frozen=True, forbid_unknown_fields=True):
    """How long, and how much, a namespace keeps: `[retention.NAMESPACE]` in hub.toml."""

    days: _Positive | None = None
    """Remove sessions that nobody has used for this long."""
    bytes: _Positive | None = None
    """Remove the sessions unused for longest while the logs of the namespace have more than this."""


class StoredSession(Struct, frozen=True):
    """What a rule needs to know of a session."""

    id: str
    updated_at: int
    bytes: int
    """Of its log."""
    busy: bool
    """It works, starts, has messages that wait or asks somebody something."""


def sessions_to_remove(
    namespace: str, sessions: Sequence[StoredSession], rule: RetentionRule, now: int
) -> list[SessionRemoval]:
    """Return what to remove, the session unused for longest first.

    A busy session stays, and one that somebody has used within the last day.
    """
    kept_bytes = sum(one.bytes for one in sessions)
    removals: list[SessionRemoval] = []
    for one in sorted(sessions, key=lambda one: (one.updated_at, one.id)):
        idle_ms = now - one.updated_at
        if one.busy or idle_ms < _DAY_MS:
            continue
        if rule.days is not None and idle_ms >= rule.days * _DAY_MS:
            reason = RemovalReason.AGE
        elif rule.bytes is not None and kept_bytes > rule.bytes:
            reason = RemovalReason.SIZE
        else:
            continue
        kept_bytes -= one.bytes
        removals.append(
            SessionRemoval(
                namespace=namespace, session_id=one.id, updated_at=one.updated_at, bytes=one.bytes, reason=reason
            )
        )  # fmt: skip
    return removals
