"""The live links to machines, and calls over them."""

from __future__ import annotations

import logging
from typing import Protocol

from farsteer.core.capabilities import MachineInfo
from farsteer.core.commands import Command, Create, Delete, Rewind
from farsteer.core.errors import FarsteerError, MachineOffline
from farsteer.hub.metrics import Metrics
from farsteer.hub.store.base import ConnectedMachine, Store
from farsteer.hub.tasks import BackgroundTasks
from farsteer.link.messages import Reply

_logger = logging.getLogger(__name__)

CALL_SECONDS = 30.0
CREATE_SECONDS = 120.0
"""The timeout of commands that start an agent."""


class MachineLink(Protocol):
    """A live link to a machine."""

    id: int
    """Unique among all links there ever were."""
    ready: bool
    """Whether the runner accepts calls."""

    async def call(self, session_id: str, command: Command, timeout: float) -> Reply: ...

    async def close(self, reason: str) -> None: ...


class MachineLinks:
    """The link of each connected machine, by namespace and machine id.

    The links are sockets of this process, so a machine that is connected to another hub looks offline here. To run
    several hubs, replace this class by one that knows which hub holds a machine's link: `current_link_id` and
    `request` would ask that hub, and `connect` would also close the link that another hub still holds. The store
    already refuses what such a link sends (`AppendStatus.STALE_LINK`). Every other service reaches machines only
    through these methods.
    """

    def __init__(self, store: Store, tasks: BackgroundTasks, metrics: Metrics) -> None:
        self._store = store
        self._tasks = tasks
        self._metrics = metrics
        self._links: dict[tuple[str, str], MachineLink] = {}

    def current_link_id(self, namespace: str, machine_id: str) -> int | None:
        """Return the id of the link that accepts calls for this machine, or None."""
        link = self._links.get((namespace, machine_id))
        return link.id if link is not None and link.ready else None

    def count(self, namespace: str) -> int:
        """Return the number of machines of a namespace that are connected."""
        return sum(owner == namespace for owner, _ in self._links)

    async def request(self, namespace: str, machine_id: str, session_id: str, command: Command) -> Reply:
        """Return the runner's reply, which may be an error. Raises MachineOffline or Unavailable (`timeout`)."""
        link = self._links.get((namespace, machine_id))
        if link is None:
            raise MachineOffline
        seconds = CREATE_SECONDS if isinstance(command, Create | Rewind) else CALL_SECONDS
        return await link.call(session_id, command, seconds)

    async def call(self, namespace: str, machine_id: str, session_id: str, command: Command) -> Reply:
        """Like `request`, but raises the error of the reply."""
        reply = await self.request(namespace, machine_id, session_id, command)
        if reply.error is not None:
            raise reply.error.to_error()
        return reply

    def delete_session(self, namespace: str, machine_id: str, session_id: str) -> None:
        """Have the runner delete a session, in the background. A runner that is offline is told when it connects."""
        work = self._delete_session(namespace, machine_id, session_id)
        self._tasks.spawn(work, f"deletion of session {session_id} on its machine")

    async def _delete_session(self, namespace: str, machine_id: str, session_id: str) -> None:
        try:
            await self.call(namespace, machine_id, session_id, Delete())
        except FarsteerError as error:
            _logger.info("session %s: the runner has not deleted it yet: %s", session_id, error.message)

    async def connect(
        self, link: MachineLink, namespace: str, machine: MachineInfo, sessions: dict[str, int]
    ) -> ConnectedMachine:
        """Make `link` the machine's link and close its previous one. The machine has proved who it is.

        Raises NotFound if it was removed meanwhile.
        """
        key = (namespace, machine.id)
        previous = self._links.get(key)
        self._links[key] = link
        self._metrics.links = len(self._links)
        if previous is not None:
            await previous.close("the machine has a newer connection")
        return await self._store.connect_machine(namespace, machine, sessions, link_id=link.id)

    async def disconnect(self, link: MachineLink, namespace: str, machine_id: str) -> None:
        """Forget `link`, which has ended. Does nothing if the machine has a newer link."""
        key = (namespace, machine_id)
        if self._links.get(key) is not link:
            return
        del self._links[key]
        self._metrics.links = len(self._links)
        await self._store.disconnect_machine(namespace, machine_id, link_id=link.id)
