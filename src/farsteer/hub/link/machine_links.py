"""The live links to machines, and calls over them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from farsteer.core.commands import (
    CleanWorktrees,
    Command,
    Create,
    Delete,
    DiffWorktree,
    DiscardWorktree,
    ListWorktrees,
    MergeWorktree,
    NameBranch,
    RebaseWorktree,
    Rewind,
    ShowWorktree,
)
from farsteer.core.errors import IdentityInUse, MachineOffline
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionType
from farsteer.core.worktrees import SETUP_SECONDS
from farsteer.hub.metrics import Metrics
from farsteer.hub.rules.lease import LeaseClaim
from farsteer.hub.store.base import ConnectedMachine, Store
from farsteer.hub.tasks import BackgroundTasks
from farsteer.link.messages import RECOVERY_PROTOCOL, Hello, Reply
from farsteer.link.transport import LinkClosed

CALL_SECONDS = 30.0
CREATE_SECONDS = 120.0
"""The timeout of commands that start an agent."""


_LONG_COMMANDS = (
    Rewind, ShowWorktree, DiffWorktree, MergeWorktree, RebaseWorktree, NameBranch, DiscardWorktree, ListWorktrees,
    CleanWorktrees,
)  # fmt: skip
"""Commands that start an agent, or git several times."""


def _seconds(command: Command) -> float:
    if isinstance(command, Create):
        is_worktree = command.spec.session_type is SessionType.WORKTREE
        return CREATE_SECONDS + SETUP_SECONDS if is_worktree else CREATE_SECONDS
    return CREATE_SECONDS if isinstance(command, _LONG_COMMANDS) else CALL_SECONDS


class MachineLink(Protocol):
    """A live link to a machine."""

    id: int
    """Unique among all links there ever were."""
    protocol: int
    """The link protocol that both ends speak."""
    ready: bool
    """Whether the runner accepts calls."""
    released: bool
    """Whether the runner has said that it ends."""

    async def call(self, session_id: str, command: Command, timeout: float) -> Reply: ...

    def offer(self, session_id: str, item: QueueItem, timeout: float) -> asyncio.Future[Reply]: ...

    async def report_claim(self, host: str) -> None: ...

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

    def speaks(self, namespace: str, machine_id: str, protocol: int) -> bool:
        """Return whether this machine accepts calls and knows the commands of this link protocol."""
        link = self._links.get((namespace, machine_id))
        return link is not None and link.ready and link.protocol >= protocol

    def count(self, namespace: str) -> int:
        """Return the number of machines of a namespace that are connected."""
        return sum(owner == namespace for owner, _ in self._links)

    async def request(self, namespace: str, machine_id: str, session_id: str, command: Command) -> Reply:
        """Return the runner's reply, which may be an error. Raises MachineOffline or Unavailable (`timeout`)."""
        link = self._links.get((namespace, machine_id))
        if link is None:
            raise MachineOffline
        return await link.call(session_id, command, _seconds(command))

    async def call(self, namespace: str, machine_id: str, session_id: str, command: Command) -> Reply:
        """Like `request`, but raises the error of the reply."""
        reply = await self.request(namespace, machine_id, session_id, command)
        if reply.error is not None:
            raise reply.error.to_error()
        return reply

    def offer(
        self, namespace: str, machine_id: str, session_id: str, item: QueueItem
    ) -> asyncio.Future[Reply]:
        """Send a person's message to a session, after the earlier ones. Returns the reply, as `request` does.

        Raises MachineOffline.
        """
        link = self._links.get((namespace, machine_id))
        if link is None:
            raise MachineOffline
        return link.offer(session_id, item, CALL_SECONDS)

    def delete_session(self, namespace: str, machine_id: str, session_id: str) -> None:
        """Have the runner delete a session, in the background. A runner that is offline is told when it connects."""
        link_id = self.current_link_id(namespace, machine_id)

        async def delete() -> None:
            await self.call(namespace, machine_id, session_id, Delete())

        self._tasks.spawn_until_done(
            delete,
            f"deletion of session {session_id} on its machine",
            needed=lambda: self.current_link_id(namespace, machine_id) == link_id is not None,
        )

    async def connect(
        self, link: MachineLink, namespace: str, hello: Hello, claim: LeaseClaim
    ) -> ConnectedMachine:
        """Make `link` the machine's link and close its previous one. The machine has proved who it is.

        Raises NotFound if it was removed meanwhile, and IdentityInUse if another runner has its lease; that one is
        told about it.
        """
        machine = hello.machine
        key = (namespace, machine.id)
        held = hello.held if link.protocol >= RECOVERY_PROTOCOL else None
        try:
            connected = await self._store.connect_machine(
                namespace,
                machine,
                hello.sessions,
                held,
                link_id=link.id,
                claim=claim,
                confirmed=hello.confirmed,
            )
        except IdentityInUse as refused:
            holder = self._links.get(key)
            if refused.is_new and holder is not None:
                self._tasks.spawn(_report_claim(holder, claim.host), f"report to machine {machine.id}")
            raise
        previous = self._links.get(key)
        self._links[key] = link
        self._metrics.links = len(self._links)
        if previous is not None:
            await previous.close("the machine has a newer connection")
        return connected

    async def disconnect(self, link: MachineLink, namespace: str, machine_id: str) -> None:
        """Forget `link`, which has ended. Does nothing if the machine has a newer link. Idempotent."""
        key = (namespace, machine_id)
        if self._links.get(key) is link:
            del self._links[key]
            self._metrics.links = len(self._links)
        await self._store.disconnect_machine(namespace, machine_id, link_id=link.id, released=link.released)


async def _report_claim(holder: MachineLink, host: str) -> None:
    with suppress(LinkClosed):
        await holder.report_claim(host)
