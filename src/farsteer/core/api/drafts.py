"""Bodies about drafts: what people have begun to write to a session."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from farsteer.core.api.base import RequestBody, ResponseBody
from farsteer.core.identity import Identity

MAX_DRAFT = 100_000
MAX_SENT_DRAFT = 10_000
"""The longest draft that a live event has whole."""


class DraftView(ResponseBody):
    """What somebody has begun to write to a session."""

    text: str
    """Empty if there is no draft."""
    version: int
    """Grows with every change; 0 if there never was a draft."""
    updated_at: int | None
    by: str | None
    """Who has changed it last, as that client calls itself."""
    identity: Identity | None
    """The token of who has changed it last."""
    client_id: str | None
    """The client that has changed it last."""


class DraftResponse(ResponseBody):
    draft: DraftView


class DraftChange(ResponseBody):
    """The draft of a session has changed."""

    text: str | None
    """Null if it is longer than 10000 characters: read it with GET."""
    version: int
    updated_at: int
    by: str
    identity: Identity | None
    client_id: str


class WriteDraft(RequestBody):
    text: Annotated[str, Meta(max_length=MAX_DRAFT)]
    """Empty removes the draft."""
    version: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    """The version that this one replaces. Without it, it replaces whatever is there."""
