"""Sessions."""

from __future__ import annotations

from dataclasses import dataclass

from farsteer.core.api import (
    ClearMessages,
    CreateSession,
    Done,
    MessageAccepted,
    MessagesCleared,
    QueueResponse,
    RenameSession,
    SendMessage,
    SessionCreated,
    SessionNotCreated,
    SessionsResponse,
    SessionView,
)
from farsteer.core.events import SessionStatus
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.hub.caller import Caller


@dataclass(frozen=True, slots=True)
class Creation:
    """How a creation ended: the body the document describes, and the HTTP status that says the same."""

    status: int
    body: SessionCreated | SessionNotCreated


class Sessions:
    async def create(
        self, caller: Caller, request: CreateSession, *, idempotency_key: str | None = None
    ) -> Creation:
        """Raises only for a wrong key (BadRequest, Conflict `idempotency_mismatch`) or a missing scope."""
        raise NotImplementedError

    async def list(
        self,
        caller: Caller,
        *,
        machine_id: str | None = None,
        agent: str | None = None,
        status: SessionStatus | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionsResponse:
        raise NotImplementedError

    async def get(self, caller: Caller, session_id: str) -> SessionView:
        raise NotImplementedError

    async def rename(self, caller: Caller, session_id: str, request: RenameSession) -> Done:
        raise NotImplementedError

    async def delete(self, caller: Caller, session_id: str) -> Done:
        raise NotImplementedError

    async def messages(
        self,
        caller: Caller,
        session_id: str,
        *,
        limit: int = 50,
        before_seq: int | None = None,
        after_seq: int | None = None,
    ) -> bytes:
        """The JSON of a `MessagesResponse`, spliced from stored bytes; oldest message first."""
        raise NotImplementedError

    async def send(self, caller: Caller, session_id: str, request: SendMessage) -> MessageAccepted:
        raise NotImplementedError

    async def clear(self, caller: Caller, session_id: str, request: ClearMessages) -> MessagesCleared:
        raise NotImplementedError

    async def abort(self, caller: Caller, session_id: str) -> Done:
        raise NotImplementedError

    async def stop(self, caller: Caller, session_id: str) -> Done:
        raise NotImplementedError

    async def resume(self, caller: Caller, session_id: str) -> Done:
        raise NotImplementedError

    async def configure(
        self,
        caller: Caller,
        session_id: str,
        *,
        permission_mode: PermissionMode | None = None,
        model: str | None = None,
        effort: ReasoningEffort | None = None,
    ) -> Done:
        raise NotImplementedError

    async def queue(self, caller: Caller, session_id: str) -> QueueResponse:
        raise NotImplementedError

    async def cancel(self, caller: Caller, session_id: str, item_id: str) -> Done:
        raise NotImplementedError
