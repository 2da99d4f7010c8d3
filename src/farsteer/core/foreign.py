"""Sessions that a machine has and its hub never had: another hub's, or lost with the hub's database."""

from __future__ import annotations

from farsteer.core.api import ResponseBody
from farsteer.core.events import SessionStatus
from farsteer.core.modes import PermissionMode
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import WireStruct


class HeldSession(WireStruct):
    """A session as its runner describes it to the hub."""

    spec: SessionSpec
    state: SessionState
    """Without what may be large. The whole state follows when the session is adopted."""
    confirmed: int
    """The last entry that some hub has confirmed: the runner does not have it any more, nor those before it."""
    updated_at: int | None = None
    """When the last entry was written that the runner still has."""


class ForeignSessionView(ResponseBody):
    id: str
    machine_id: str
    agent: str
    directory: str
    title: str | None
    status: SessionStatus
    permission_mode: PermissionMode
    seq: int
    """The number of entries of its log."""
    lost: int
    """How many of them, the oldest, the machine does not have any more."""
    updated_at: int | None
    """Null if the machine has none of its entries any more."""


class ForeignSessionsResponse(ResponseBody):
    sessions: list[ForeignSessionView]
