"""How much a namespace may have of something."""

from __future__ import annotations

from msgspec import Struct

from farsteer.core.errors import QuotaExceeded


class NamespaceTotals(Struct, frozen=True):
    """What a namespace has."""

    sessions: int
    """Those in creation included."""
    machines: int
    queued_bytes: int
    """Of messages that wait."""


def check_quota(kind: str, used: int, limit: int | None) -> None:
    """Raise QuotaExceeded if a namespace has `limit` of something already. `kind` is also the name of the setting."""
    if limit is not None and used >= limit:
        raise QuotaExceeded(
            f"this namespace has {used} {kind}, and its limit is {limit}: delete some, or let the owner of the hub"
            f" raise `{kind}` under [limits] in hub.toml",
            kind=kind, limit=limit, used=used,
        )  # fmt: skip
