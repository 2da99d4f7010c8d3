"""Presence: who is connected and who is typing. Nothing of it is stored."""

from __future__ import annotations

import asyncio
import logging

from farsteer.core.api import OnlineUser, OnlineUsersResponse, Typing, UserTyping
from farsteer.core.clock import now_ms
from farsteer.core.commands import Prewarm
from farsteer.core.errors import FarsteerError
from farsteer.core.events import SessionStatus
from farsteer.core.wire import encode
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.feed import Feed, sync_event
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.store.base import Store
from farsteer.hub.tasks import BackgroundTasks

_logger = logging.getLogger(__name__)

_WITHOUT_PROCESS = (SessionStatus.STOPPED, SessionStatus.FAILED)
_PUBLISH_DELAY_SECONDS = 0.05
"""Collects connections that open and close at the same time into one event."""


class Presence:
    """The live connections of this process, and what their users type.

    With several hubs, `online` would show only the users who are connected to the same hub. A second hub needs the
    connections of the others, for example from the messages by which hubs also forward typing events.
    """

    def __init__(self, store: Store, feed: Feed, links: MachineLinks, tasks: BackgroundTasks) -> None:
        self._store = store
        self._feed = feed
        self._links = links
        self._tasks = tasks
        self._prewarming: set[str] = set()
        self._connections: dict[str, dict[str, OnlineUser]] = {}
        """By namespace and connection id."""
        self._namespaces: dict[str, str] = {}
        """By connection id."""
        self._published: dict[str, list[OnlineUser]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def typing(self, caller: Caller, session_id: str, request: Typing) -> None:
        """Publish what the caller types, and prewarm the session if the coming message needs a process."""
        caller.require(Scope.WRITE)
        row = await self._store.get_session(caller.namespace, session_id)
        needs_process = row.reachable and row.state.status in _WITHOUT_PROCESS
        if request.text and needs_process and row.id not in self._prewarming:
            self._prewarming.add(row.id)
            self._tasks.spawn(self._prewarm(row), f"prewarming of session {row.id}")
        client = request.client_id or caller.client_id or ""
        typing = UserTyping(
            email=caller.name,
            client_id=client,
            text=request.text,
            updated_at=now_ms(),
            identity=caller.identity,
        )
        # With the token, because any other could claim the same client id and replace this event.
        key = f"{session_id}:{caller.token_id}:{client}"
        self._publish(caller.namespace, "typing-changed", session_id, typing, key)

    async def _prewarm(self, row: SessionRow) -> None:
        try:
            await self._links.call(row.namespace, row.machine_id, row.id, Prewarm())
        except FarsteerError as error:
            _logger.debug("session %s was not prewarmed: %s", row.id, error.message)
        finally:
            self._prewarming.discard(row.id)

    def join(self, caller: Caller, connection_id: str, session_id: str | None = None) -> None:
        """Add a live connection (a socket or an SSE stream), or replace the one with this id."""
        user = OnlineUser(
            email=caller.name,
            client_id=caller.client_id or "",
            device_type=caller.device_type,
            session_id=session_id,
            identity=caller.identity,
        )
        self.leave(connection_id)
        self._namespaces[connection_id] = caller.namespace
        self._connections.setdefault(caller.namespace, {})[connection_id] = user
        self._publish_users_soon(caller.namespace)

    def leave(self, connection_id: str) -> None:
        """Remove a connection. Idempotent."""
        namespace = self._namespaces.pop(connection_id, None)
        if namespace is not None:
            del self._connections[namespace][connection_id]
            self._publish_users_soon(namespace)

    def online(self, caller: Caller) -> OnlineUsersResponse:
        """Return each user once per token, client and session, whatever the number of connections."""
        caller.require(Scope.READ)
        return OnlineUsersResponse(users=self._users(caller.namespace))

    def count(self, namespace: str) -> int:
        """Return the number of open live connections of a namespace."""
        return len(self._connections.get(namespace, {}))

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _users(self, namespace: str) -> list[OnlineUser]:
        return list(
            {
                (user.identity, user.client_id, user.session_id): user
                for user in self._connections.get(namespace, {}).values()
            }.values()
        )

    def _publish_users_soon(self, namespace: str) -> None:
        if namespace not in self._timers:
            self._timers[namespace] = asyncio.get_running_loop().call_later(
                _PUBLISH_DELAY_SECONDS, self._publish_users, namespace
            )

    def _publish_users(self, namespace: str) -> None:
        del self._timers[namespace]
        users = self._users(namespace)
        published = self._published.pop(namespace, [])
        if users:
            self._published[namespace] = users
        else:
            self._connections.pop(namespace, None)
        if users != published:
            self._publish(namespace, "online-users-changed", None, users, "online-users")

    def _publish(self, namespace: str, type: str, subject: str | None, payload: object, key: str) -> None:
        self._feed.publish([sync_event(namespace, type, subject, encode(payload), merge_key=f"{type}:{key}")])
