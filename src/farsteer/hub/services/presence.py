"""Presence: who is connected, and who types where. Nothing of it is stored."""

from __future__ import annotations

import asyncio
import logging

from farsteer.core.api import OnlineUser, OnlineUsersResponse, Typing
from farsteer.core.clock import now_ms
from farsteer.core.commands import Prewarm
from farsteer.core.errors import FarsteerError
from farsteer.core.events import SessionStatus
from farsteer.core.wire import encode
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.feed import Feed, sync_event
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import Store
from farsteer.hub.tasks import Tasks

_log = logging.getLogger(__name__)

_AT_REST = (SessionStatus.STOPPED, SessionStatus.FAILED)
_CALM_SECONDS = 0.05
"""When many come and go at once, one event tells of all of them."""


class Presence:
    def __init__(self, store: Store, feed: Feed, machines: Machines, tasks: Tasks) -> None:
        self._store = store
        self._feed = feed
        self._machines = machines
        self._tasks = tasks
        self._warming: set[str] = set()
        self._there: dict[str, dict[str, OnlineUser]] = {}
        self._namespaces: dict[str, str] = {}
        self._told: dict[str, list[OnlineUser]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def typing(self, caller: Caller, session_id: str, request: Typing) -> None:
        """Also a sign that a message is near: one that will need a process finds it started."""
        caller.require(Scope.WRITE)
        row = await self._store.get_session(caller.namespace, session_id)
        if request.text and row.reachable and row.state.status in _AT_REST and row.id not in self._warming:
            self._warming.add(row.id)
            self._tasks.spawn(self._warm(row), f"warming of {row.id}")
        client = request.client_id or caller.client_id or ""
        typing = {"email": caller.name, "clientId": client, "text": request.text, "updatedAt": now_ms()}
        self._publish(caller.namespace, "typing-changed", session_id, typing, f"{session_id}:{client}")

    async def _warm(self, row: SessionRow) -> None:
        try:
            await self._machines.call(row.namespace, row.machine_id, row.id, Prewarm())
        except FarsteerError as error:
            _log.debug("session %s is not warmed: %s", row.id, error.message)
        finally:
            self._warming.discard(row.id)

    def join(self, caller: Caller, connection_id: str, session_id: str | None = None) -> None:
        """A live connection (a socket, an SSE stream) is there."""
        user = OnlineUser(
            email=caller.name,
            client_id=caller.client_id or "",
            device_type=caller.device_type,
            session_id=session_id,
        )
        self.leave(connection_id)
        self._namespaces[connection_id] = caller.namespace
        self._there.setdefault(caller.namespace, {})[connection_id] = user
        self._tell_soon(caller.namespace)

    def leave(self, connection_id: str) -> None:
        """It is gone. Idempotent."""
        namespace = self._namespaces.pop(connection_id, None)
        if namespace is not None:
            del self._there[namespace][connection_id]
            self._tell_soon(namespace)

    def online(self, caller: Caller) -> OnlineUsersResponse:
        """Each user once for each client and session, however many connections that is."""
        caller.require(Scope.READ)
        return OnlineUsersResponse(users=self._users(caller.namespace))

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _users(self, namespace: str) -> list[OnlineUser]:
        return list(
            {
                (user.email, user.client_id, user.session_id): user
                for user in self._there.get(namespace, {}).values()
            }.values()
        )

    def _tell_soon(self, namespace: str) -> None:
        if namespace not in self._timers:
            self._timers[namespace] = asyncio.get_running_loop().call_later(
                _CALM_SECONDS, self._tell, namespace
            )

    def _tell(self, namespace: str) -> None:
        del self._timers[namespace]
        users = self._users(namespace)
        told = self._told.pop(namespace, [])
        if users:
            self._told[namespace] = users
        else:
            self._there.pop(namespace, None)
        if users != told:
            self._publish(namespace, "online-users-changed", None, users, "online-users")

    def _publish(self, namespace: str, type: str, subject: str | None, payload: object, key: str) -> None:
        self._feed.publish([sync_event(namespace, type, subject, encode(payload), merge_key=f"{type}:{key}")])
