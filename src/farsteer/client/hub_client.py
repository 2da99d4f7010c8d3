"""What whoever runs sessions needs of a hub, be it reached over HTTP or part of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from farsteer.client.turn import Backend
from farsteer.core.api import CreateSession, MachineView, SessionCreated, SessionRewound, SessionView
from farsteer.core.events import Entry
from farsteer.core.modes import PermissionMode, ReasoningEffort


class Named(Protocol):
    """A session, as far as its id goes."""

    @property
    def id(self) -> str: ...


class HubClient(Backend, Protocol):
    async def machines(self) -> list[MachineView]: ...

    def sessions(self) -> AsyncIterator[SessionView]:
        """The one changed last comes first."""
        ...

    def log(self, session_id: str) -> AsyncIterator[Entry]:
        """All of it, as it is now."""
        ...

    async def create_session(self, request: CreateSession) -> SessionCreated: ...

    async def fork(self, session_id: str, *, seq: int | None = None, title: str | None = None) -> Named: ...

    async def rewind(self, session_id: str, seq: int, *, restore_files: bool = True) -> SessionRewound: ...

    async def delete(self, session_id: str) -> None: ...

    async def rename(self, session_id: str, title: str) -> None: ...

    async def set_permission_mode(self, session_id: str, mode: PermissionMode) -> None: ...

    async def set_model(
        self, session_id: str, model: str, *, effort: ReasoningEffort | None = None
    ) -> None: ...

    async def cancel(self, session_id: str, item_id: str) -> None: ...

    async def abort(self, session_id: str) -> None: ...

    async def stop(self, session_id: str) -> None: ...
