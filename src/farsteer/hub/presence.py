"""Presence."""

from __future__ import annotations

from farsteer.core.api import OnlineUsersResponse, Typing
from farsteer.hub.caller import Caller


class Presence:
    async def typing(self, caller: Caller, session_id: str, request: Typing) -> None:
        raise NotImplementedError

    def join(self, caller: Caller, connection_id: str, session_id: str | None = None) -> None:
        """A live connection (a socket, an SSE stream) is there."""
        raise NotImplementedError

    def leave(self, connection_id: str) -> None:
        """It is gone. Idempotent."""
        raise NotImplementedError

    def online(self, caller: Caller) -> OnlineUsersResponse:
        raise NotImplementedError
