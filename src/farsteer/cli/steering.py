"""What commands that run turns need of a hub, be it reached over HTTP or part of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from farsteer.client.turn import Backend
from farsteer.core.api import CreateSession, MachineView, SessionCreated, SessionView


class Steering(Backend, Protocol):
    async def machines(self) -> list[MachineView]: ...

    def sessions(self) -> AsyncIterator[SessionView]: ...

    async def create_session(self, request: CreateSession) -> SessionCreated: ...

    async def abort(self, session_id: str) -> None: ...

    async def stop(self, session_id: str) -> None: ...
