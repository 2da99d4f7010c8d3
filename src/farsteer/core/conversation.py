"""A conversation that an agent has stored on its machine, whether or not it is a session of ours."""

from __future__ import annotations

from farsteer.core.wire import Wire


class Conversation(Wire, omit_defaults=False):
    native_id: str
    agent: str
    directory: str
    updated_at: int
    title: str | None = None
    messages: int | None = None
    """How many, where that is known without reading all of it."""
    session_id: str | None = None
    """The session it belongs to already."""
