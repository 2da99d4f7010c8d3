"""Handing accepted messages to their runners: in order within a session, once on each link, again on the next.

What is to be handed over stands in the store, so nothing here needs to survive. A runner knows an item by its id, and
confirms it with an event; until then the item stays accepted, and the machine's next link offers it again.
"""

from __future__ import annotations

import asyncio
import logging

from farsteer.core.commands import Send
from farsteer.core.errors import ErrorCode, FarsteerError
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import Store
from farsteer.hub.tasks import Tasks

_log = logging.getLogger(__name__)

# What says nothing about the message itself: it keeps waiting.
_LATER = frozenset({ErrorCode.MACHINE_OFFLINE, ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT, ErrorCode.CONFLICT})


class Dispatch:
    def __init__(self, store: Store, machines: Machines, tasks: Tasks) -> None:
        self._store = store
        self._machines = machines
        self._tasks = tasks
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()

    def kick(self, namespace: str, machine_id: str, session_id: str) -> None:
        """There may be something to hand over in this session."""
        if session_id in self._pumps:
            self._again.add(session_id)
            return
        self._pumps[session_id] = self._tasks.spawn(
            self._pump(namespace, machine_id, session_id), f"messages of {session_id}"
        )

    async def drain(
        self, namespace: str, machine_id: str, session_id: str, seconds: float | None = None
    ) -> None:
        """Hand over what there is, and wait until the runner has answered to all of it, or for so long."""
        self.kick(namespace, machine_id, session_id)
        await asyncio.wait([self._pumps[session_id]], timeout=seconds)

    async def connected(self, namespace: str, machine_id: str) -> None:
        """A machine is back: everything it has not confirmed is handed over."""
        for session_id in await self._store.list_sessions_with_accepted_items(namespace, machine_id):
            self.kick(namespace, machine_id, session_id)

    async def _pump(self, namespace: str, machine_id: str, session_id: str) -> None:
        try:
            while True:
                self._again.discard(session_id)
                await self._hand_over(namespace, machine_id, session_id)
                if session_id not in self._again:
                    return
        finally:
            del self._pumps[session_id]

    async def _hand_over(self, namespace: str, machine_id: str, session_id: str) -> None:
        link = self._machines.link_number(namespace, machine_id)
        if link is None:
            return
        for item in await self._store.claim_items(session_id, link):
            try:
                await self._machines.call(namespace, machine_id, session_id, Send(item=item))
            except FarsteerError as error:
                if error.code not in _LATER:
                    await self._store.fail_item(session_id, item.id, error.message)
                    continue
                _log.info("session %s: a message waits: %s", session_id, error.message)
                # After a timeout the runner still has the call; without a link there is nobody to give the rest to.
                if error.code is not ErrorCode.TIMEOUT:
                    return
