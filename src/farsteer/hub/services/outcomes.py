"""Outcomes of messages that the hub learned or decided by itself: recorded, and told to the runner for the log."""

from __future__ import annotations

import logging

import msgspec

from farsteer.core.commands import KnownOutcome, Settle
from farsteer.core.errors import ErrorCode, FarsteerError
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.store.base import Store
from farsteer.hub.tasks import BackgroundTasks
from farsteer.link.messages import RECOVERY_PROTOCOL

_logger = logging.getLogger(__name__)

_RETRIED_ERRORS = frozenset(
    {ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT, ErrorCode.CONFLICT, ErrorCode.INTERNAL}
)


class OutcomeReports:
    """Lets the logs have the outcomes that the hub gave.

    Only the runner numbers a log. The store remembers which outcomes a log does not have yet, and an entry of that log
    ends it, so what is told twice or not at all does no harm: it is told again over the next link.

    Each hub tells the machines that are connected to it, so several hubs need nothing more.
    """

    def __init__(self, store: Store, links: MachineLinks, tasks: BackgroundTasks) -> None:
        self._store = store
        self._links = links
        self._tasks = tasks
        self._running: set[tuple[str, str]] = set()
        self._requested: set[tuple[str, str]] = set()
        """Machines for which it was requested while it was running."""

    async def record(
        self, namespace: str, machine_id: str, session_id: str, item_id: str, result: object
    ) -> None:
        """Record the outcome that a runner says an item has had, if the log has not brought it."""
        try:
            state = msgspec.convert(result, KnownOutcome).outcome
        except msgspec.ValidationError:
            return
        if state.final and await self._store.settle_item(session_id, item_id, state):
            self.start(namespace, machine_id)

    def start(self, namespace: str, machine_id: str) -> None:
        """Tell a machine, in the background, which outcomes its logs do not have yet."""
        machine = (namespace, machine_id)
        if machine in self._running:
            self._requested.add(machine)
        elif self._links.speaks(*machine, RECOVERY_PROTOCOL):
            self._running.add(machine)
            self._tasks.spawn(self._run(machine), f"outcomes for machine {machine_id}")

    async def _run(self, machine: tuple[str, str]) -> None:
        try:
            await self._tasks.repeat_until_done(
                lambda: self._tell_all(machine),
                f"telling machine {machine[1]} outcomes",
                needed=lambda: self._links.speaks(*machine, RECOVERY_PROTOCOL),
            )
        finally:
            self._running.discard(machine)

    async def _tell_all(self, machine: tuple[str, str]) -> None:
        """Tell what is unlogged. Raises an error after which some of it should be told again over the same link."""
        while True:
            self._requested.discard(machine)
            failed: FarsteerError | None = None
            for outcome in await self._store.list_unlogged_outcomes(*machine):
                item = outcome.item
                command = Settle(item.id, item.state, outcome.seq, outcome.reason, item)
                reply = await self._links.request(*machine, outcome.session_id, command)
                if reply.error is not None and reply.error.code in _RETRIED_ERRORS:
                    failed = reply.error.to_error()
                elif reply.error is not None:
                    _logger.info(
                        "session %s: an outcome is not in the log: %s", outcome.session_id, reply.error
                    )
            if failed is not None:
                raise failed
            if machine not in self._requested:
                return
