"""What programs that steer sessions need of a hub, whether it is reached over HTTP or runs in this process.

`farsteer.client.AsyncClient` and `farsteer.faces.in_process_client.InProcessClient` implement `HubClient`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from farsteer.client.live_events import LiveEvent
from farsteer.core.api import (
    ApprovalAnswered,
    Approve,
    CreateSession,
    Deny,
    MachineView,
    MessageAccepted,
    NewAttachment,
    SessionCreated,
    SessionRewound,
    SessionView,
)
from farsteer.core.events import Entry
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import QueueItem


class TurnClient(Protocol):
    """The part of a hub that is needed to run a turn in a session."""

    async def session(self, session_id: str) -> SessionView: ...

    def messages(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        """Iterate over the log from behind the sequence number `after`, oldest entry first."""
        ...

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        attachments: Sequence[NewAttachment] = (),
        local_id: str | None = None,
    ) -> MessageAccepted: ...

    async def answer(
        self, session_id: str, approval_id: str, decision: Approve | Deny | bool
    ) -> ApprovalAnswered: ...

    def follow(self, session_id: str) -> AbstractAsyncContextManager[AsyncIterator[LiveEvent]]:
        """Subscribe to the session. When the block is entered, no later event is missed."""
        ...


class SessionRef(Protocol):
    """Anything with the id of a session."""

    @property
    def id(self) -> str: ...


class HubClient(TurnClient, Protocol):
    """A hub, as the CLI and the faces for editors and Droid programs use it."""

    async def machines(self) -> list[MachineView]: ...

    def sessions(self) -> AsyncIterator[SessionView]:
        """Iterate over all sessions, the one changed last first."""
        ...

    def log(self, session_id: str) -> AsyncIterator[Entry]:
        """Iterate over the whole log as it is now, oldest entry first."""
        ...

    async def create_session(self, request: CreateSession) -> SessionCreated: ...

    async def fork(
        self, session_id: str, *, seq: int | None = None, title: str | None = None
    ) -> SessionRef: ...

    async def rewind(self, session_id: str, seq: int, *, restore_files: bool = True) -> SessionRewound: ...

    async def delete(self, session_id: str) -> None: ...

    async def rename(self, session_id: str, title: str) -> None: ...

    async def set_permission_mode(self, session_id: str, mode: PermissionMode) -> None: ...

    async def set_model(
        self, session_id: str, model: str, *, effort: ReasoningEffort | None = None
    ) -> None: ...

    async def queue(self, session_id: str) -> list[QueueItem]:
        """Return the messages that wait, whole, the next one first."""
        ...

    async def cancel(self, session_id: str, item_id: str) -> None: ...

    async def abort(self, session_id: str) -> None: ...

    async def stop(self, session_id: str) -> None: ...
