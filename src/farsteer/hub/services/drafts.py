"""Drafts: what somebody has begun to write to a session, kept for all devices. The last writer wins, knowingly."""

from __future__ import annotations

from farsteer.core.api import DraftResponse, WriteDraft
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.store.base import Store
from farsteer.hub.store.drafts import NewDraft


class Drafts:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, caller: Caller, session_id: str) -> DraftResponse:
        caller.require(Scope.READ)
        return DraftResponse(draft=await self._store.read_draft(caller.namespace, session_id))

    async def write(self, caller: Caller, session_id: str, request: WriteDraft) -> DraftResponse:
        """Replace the draft. Raises Conflict if the request names a version that is not the present one."""
        caller.require(Scope.WRITE)
        new = NewDraft(
            text=request.text, by=caller.name, identity=caller.identity, client_id=caller.client_id or ""
        )
        stored = await self._store.write_draft(caller.namespace, session_id, new, request.version)
        return DraftResponse(draft=stored)
