"""Delivering accepted messages to the runners, until each of them is confirmed or has an outcome."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Any

from msgspec import Struct

from farsteer.core.errors import ErrorCode, FarsteerError, NotFound
from farsteer.core.queue import QueueItem
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.services.outcomes import OutcomeReports
from farsteer.hub.store.base import AcceptedItem, Claim, Store
from farsteer.hub.tasks import BackgroundTasks, FailureLog, retry_delay
from farsteer.link.messages import Reply

_logger = logging.getLogger(__name__)

_WINDOW = 32
"""How many messages of a session may be on their way to the runner at the same time."""
_MAX_INTERNAL = 5
"""How often a message at which the runner fails is offered again."""
_KNOWN_SESSIONS = 10_000

_RETRIED_ERRORS = frozenset(
    {ErrorCode.MACHINE_OFFLINE, ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT, ErrorCode.CONFLICT}
)
"""Errors that do not concern the message itself: it stays accepted and is offered again.

After a timeout the runner may have it. That does no harm: a runner knows a message by its id.
"""


class _Address(Struct, frozen=True):
    namespace: str
    machine_id: str
    session_id: str


class MessageDelivery:
    """Delivers accepted messages to their runners: in order within a session, once per link unless that fails.

    It follows the store: whatever is accepted there is offered to the runner, and offered again after any failure, with
    growing delays, as long as the machine's link is up; and over its next link. The runner recognises a message by its
    id and confirms it with an event. So nothing here has to survive the process.

    The order within a session holds because one object of this process delivers it. With several hubs, the hub that
    holds the machine's link would have to do that, and the others would ask it to (see `MachineLinks`).
    """

    def __init__(
        self, store: Store, links: MachineLinks, tasks: BackgroundTasks, outcomes: OutcomeReports
    ) -> None:
        self.store = store
        self.links = links
        self.tasks = tasks
        self.outcomes = outcomes
        self.failures = FailureLog(_logger)
        self._active: dict[str, _SessionDelivery] = {}
        """Sessions with messages on their way, or that failed."""
        self._machines: OrderedDict[str, str] = OrderedDict()
        """The machine of each session to which something was delivered lately."""

    def claim_for(self, namespace: str, session_id: str) -> Claim | None:
        """Return the claim with which a new message of a session can be accepted, so that it is offered at once.

        None if it has to wait for others: then `start` delivers it.
        """
        machine_id = self._machines.get(session_id)
        link_id = None if machine_id is None else self.links.current_link_id(namespace, machine_id)
        if machine_id is None or link_id is None:
            return None
        active = self._active.get(session_id)
        return Claim(machine_id, link_id) if active is None or active.has_room(link_id) else None

    def offer(self, namespace: str, session_id: str, accepted: AcceptedItem, item: QueueItem) -> None:
        """Deliver a message that has just been accepted: at once if it was claimed, or else with all that wait."""
        session = self._session(_Address(namespace, accepted.machine_id, session_id))
        if accepted.claimed_by is not None and session.has_room(accepted.claimed_by):
            session.offer(item)
        else:
            session.request()

    def start(self, namespace: str, machine_id: str, session_id: str, *, again: bool = False) -> None:
        """Deliver the accepted messages of a session in the background; with `again`, those on their way as well."""
        self._session(_Address(namespace, machine_id, session_id)).request(again=again)

    def start_all(self, namespace: str, machine_id: str) -> None:
        """Deliver what a machine that has just connected has not confirmed."""
        link_id = self.links.current_link_id(namespace, machine_id)

        async def start() -> None:
            for session_id in await self.store.list_sessions_with_accepted_items(namespace, machine_id):
                self.start(namespace, machine_id, session_id)

        self.tasks.spawn_until_done(
            start,
            f"delivery to machine {machine_id}",
            needed=lambda: self.links.current_link_id(namespace, machine_id) == link_id is not None,
        )

    def check(self, namespace: str, session_id: str) -> None:
        """Deliver what a session has after a request of which it is not known whether it was stored."""

        async def start() -> None:
            try:
                row = await self.store.get_session(namespace, session_id)
            except NotFound:
                return
            if row.has_accepted:
                self.start(namespace, row.machine_id, session_id, again=True)

        self.tasks.spawn_until_done(start, f"delivery to session {session_id}")

    async def deliver(
        self, namespace: str, machine_id: str, session_id: str, timeout: float | None = None
    ) -> None:
        """Offer the accepted messages of a session and wait until the runner has answered, or for `timeout`."""
        session = self._session(_Address(namespace, machine_id, session_id))
        session.request()
        try:
            async with asyncio.timeout(timeout):
                await session.wait()
        except TimeoutError:
            return

    def forget(self, session: _SessionDelivery) -> None:
        if self._active.get(session.address.session_id) is session:
            del self._active[session.address.session_id]

    def _session(self, address: _Address) -> _SessionDelivery:
        session_id = address.session_id
        session = self._active.get(session_id)
        if session is None:
            session = self._active[session_id] = _SessionDelivery(self, address)
            self._machines[session_id] = address.machine_id
            self._machines.move_to_end(session_id)
            if len(self._machines) > _KNOWN_SESSIONS:
                self._machines.popitem(last=False)
        return session


class _SessionDelivery:
    """Delivers the messages of one session: at most one task that claims and one timer.

    After a failure it cannot know what the runner has. Then everything accepted is offered again, at first one message
    at a time, until the runner answers.
    """

    def __init__(self, delivery: MessageDelivery, address: _Address) -> None:
        self._delivery = delivery
        self.address = address
        self._link_id = self._current_link_id()
        self._requested = False
        self._claiming: asyncio.Task[None] | None = None
        self._offers: dict[str, asyncio.Future[Any]] = {}
        """By the id of the item: the runner's reply, then the task that handles it if there is something to do."""
        self._timer: asyncio.TimerHandle | None = None
        self._failures = 0
        """How many attempts in a row failed."""
        self._again = False
        """What was claimed before has to be offered again."""
        self._more = False
        """Something was claimed, so more may wait."""

    def has_room(self, link_id: int) -> bool:
        """Whether a message that was claimed for this link can be offered now, with none to wait for."""
        return (
            not self._failures
            and not self._again
            and len(self._offers) < _WINDOW
            and self._current_link_id() == link_id
        )

    def request(self, *, again: bool = False) -> None:
        """Claim what waits and offer it. At once, even if a retry is due later."""
        self._requested = True
        self._again = self._again or again
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._claiming is None:
            try:
                self._claiming = self._delivery.tasks.spawn(
                    self._claim(), f"delivery to session {self.address.session_id}"
                )
            except Exception as error:  # noqa: BLE001
                self._fail(error)

    def offer(self, item: QueueItem) -> None:
        try:
            address = self.address
            reply = self._delivery.links.offer(
                address.namespace, address.machine_id, address.session_id, item
            )
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        else:
            self._offers[item.id] = reply
            reply.add_done_callback(lambda reply: self._receive(item, reply))

    async def wait(self) -> None:
        """Wait until the runner has answered what is accepted by now."""
        if self._claiming is not None:
            await asyncio.wait([self._claiming])
        ids = {*self._offers}
        while waiting := [self._offers[id] for id in ids if id in self._offers]:
            await asyncio.wait(waiting)

    async def _claim(self) -> None:
        try:
            while self._requested and len(self._offers) < _WINDOW:
                self._requested = False
                await self._claim_once()
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        finally:
            self._claiming = None
            self._rest()

    async def _claim_once(self) -> None:
        link_id = self._current_link_id()
        if link_id is None:
            # What waits is delivered over the next link.
            self._more = False
            return
        if link_id != self._link_id:
            self._link_id, self._failures, self._again = link_id, 0, False
        again, self._again = self._again, False
        limit = 1 if self._failures else _WINDOW - len(self._offers)
        try:
            items = await self._delivery.store.claim_items(
                self.address.session_id, link_id, again=again, limit=limit
            )
        except BaseException:
            # It may have been committed.
            self._again = True
            raise
        self._more = bool(items)
        if not items:
            self._failures = 0
        for item in items:
            if item.id not in self._offers:
                self.offer(item)

    def _receive(self, item: QueueItem, answer: asyncio.Future[Reply]) -> None:
        """Handle the answer to an offer: at once if it is that the runner has the message."""
        error = answer.exception()
        if error is None and answer.result().error is None and answer.result().result is None:
            self._failures = 0
            self._end_offer(item)
            return
        try:
            self._offers[item.id] = self._delivery.tasks.spawn(
                self._handle(item, answer), f"delivery of message {item.id}"
            )
        except Exception as failure:  # noqa: BLE001
            self._fail(failure)
            self._end_offer(item)

    async def _handle(self, item: QueueItem, answer: asyncio.Future[Reply]) -> None:
        address = self.address
        try:
            reply = answer.result()
            if reply.error is not None:
                raise reply.error.to_error()
            await self._delivery.outcomes.record(
                address.namespace, address.machine_id, address.session_id, item.id, reply.result
            )
            self._failures = 0
        except FarsteerError as error:
            await self._judge(item, error)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        finally:
            self._end_offer(item)

    def _end_offer(self, item: QueueItem) -> None:
        del self._offers[item.id]
        self._go_on()

    async def _judge(self, item: QueueItem, error: FarsteerError) -> None:
        """Give a message that the runner provably did not take its outcome, or offer it again."""
        is_temporary = error.code in _RETRIED_ERRORS
        if is_temporary or (error.code is ErrorCode.INTERNAL and self._failures < _MAX_INTERNAL):
            self._fail(error)
            return
        try:
            # The reply came after the events of what the runner did, so the store knows if it has the message.
            await self._delivery.store.fail_item(self.address.session_id, item.id, error.message)
            self._delivery.outcomes.start(self.address.namespace, self.address.machine_id)
            self._failures = 0
        except Exception as failure:  # noqa: BLE001
            self._fail(failure)

    def _fail(self, error: Exception) -> None:
        """Offer everything again later. Without a link, the next one begins with everything."""
        self._again = True
        if self._current_link_id() is None or self._timer is not None:
            return
        self._failures += 1
        self._delivery.failures.report(f"session {self.address.session_id}: delivery", error)
        delay = retry_delay(self._failures)
        self._timer = asyncio.get_running_loop().call_later(delay, self.request)

    def _go_on(self) -> None:
        """Claim more if more may wait and some of what was offered is answered."""
        due = self._more or self._requested
        if due and self._timer is None and self._claiming is None and len(self._offers) <= _WINDOW // 2:
            self.request()
        else:
            self._rest()

    def _rest(self) -> None:
        if self._claiming is None and not self._offers and self._timer is None:
            self._delivery.forget(self)

    def _current_link_id(self) -> int | None:
        return self._delivery.links.current_link_id(self.address.namespace, self.address.machine_id)
