"""The part of the store's interface that concerns drafts: what somebody has begun to write to a session."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from farsteer.core.api.drafts import DraftView
from farsteer.core.identity import Identity


class NewDraft(Struct, frozen=True):
    text: str
    by: str
    identity: Identity | None
    client_id: str


class DraftStore(Protocol):
    async def read_draft(self, namespace: str, session_id: str) -> DraftView:
        """Return the draft of a session. One that nobody has written is empty and has version 0."""
        ...

    async def write_draft(
        self, namespace: str, session_id: str, draft: NewDraft, seen: int | None
    ) -> DraftView:
        """Replace the draft of a session. Each change has the next version, and is published as `draft-updated`.

        A message with the same text as the draft empties it, in the transaction that accepts the message.

        Raises Conflict (`draft_outdated`, details `version`) if `seen` is given and not the stored version.
        """
        ...
