"""The hub's side of the link: each runner that connects is greeted, served and seen off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from farsteer.core.errors import Forbidden
from farsteer.core.ids import is_uuid
from farsteer.hub.feed import Feed
from farsteer.hub.link.connection import LinkTransport, RunnerLink
from farsteer.hub.metrics import Metrics
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import Store
from farsteer.hub.tasks import Tasks
from farsteer.link.messages import IDLE_TIMEOUT_SECONDS, PROTOCOL, Hello, Refused
from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed

_log = logging.getLogger(__name__)


class LinkServer:
    """Serves every runner that connects."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        machines: Machines,
        metrics: Metrics,
        tasks: Tasks,
        on_revoke: Callable[[Callable[[str], None]], object],
        on_connect: Callable[[str, str], Awaitable[None]],
        silence: float = IDLE_TIMEOUT_SECONDS,
    ) -> None:
        self._store = store
        self._feed = feed
        self._machines = machines
        self._metrics = metrics
        self._tasks = tasks
        self._on_connect = on_connect
        self._silence = silence
        self._serving: dict[asyncio.Task[None], str | None] = {}
        self._closing = False
        on_revoke(self._revoked)

    async def serve(self, transport: LinkTransport, namespace: str, *, token_id: str | None = None) -> None:
        """One runner's life here; returns when its link ended. `token_id`: end it when that token is revoked."""
        if self._closing:
            await transport.close()
            return
        # A task of ours, so that a face that is cancelled leaves no half-ended machine behind.
        life = self._tasks.spawn(self._serve(transport, namespace), "link")
        self._serving[life] = token_id
        life.add_done_callback(lambda ended: self._serving.pop(ended, None))
        try:
            await asyncio.wait([life])
        except asyncio.CancelledError:
            life.cancel()
            raise

    async def close(self) -> None:
        """End all links and refuse new ones."""
        self._closing = True
        lives = [*self._serving]
        for life in lives:
            life.cancel()
        if lives:
            await asyncio.wait(lives)

    def _revoked(self, token_id: str) -> None:
        for life, used in self._serving.items():
            if used == token_id:
                _log.info("a link ends: its token was revoked")
                life.cancel()

    async def _serve(self, transport: LinkTransport, namespace: str) -> None:
        try:
            hello = await self._hello(transport)
            if hello is not None:
                await self._live(transport, namespace, hello)
        except LinkClosed as closed:
            _log.info("a link ended: %s", closed)
        except Exception:  # noqa: BLE001
            # A runner that is cut off comes back and sends again what was not acknowledged.
            _log.exception("a link failed")
        finally:
            await transport.close()

    async def _hello(self, transport: LinkTransport) -> Hello | None:
        hello = await IdleTimeoutReceiver(transport, self._silence).receive_first()
        if not isinstance(hello, Hello):
            raise LinkClosed("the runner did not say hello")
        if hello.protocol != PROTOCOL:
            reason = f"this hub speaks link protocol {PROTOCOL}, the runner {hello.protocol}"
        elif not is_uuid(hello.machine.id):
            reason = "a machine's id must be a UUID"
        else:
            return hello
        await transport.send(Refused(reason=reason))
        return None

    async def _live(self, transport: LinkTransport, namespace: str, hello: Hello) -> None:
        machine = hello.machine
        link = RunnerLink(
            transport, namespace, machine.id, store=self._store, feed=self._feed, metrics=self._metrics,
            silence=self._silence,
        )  # fmt: skip
        try:
            connected = await self._machines.connect(link, namespace, machine, hello.sessions)
            await link.welcome(connected)
            _log.info("machine %s (%s) is connected", machine.id, machine.host)
            await self._on_connect(namespace, machine.id)
            await link.live()
        except Forbidden as error:
            await transport.send(Refused(reason=error.message))
        finally:
            ending = self._end(link, namespace, machine.id)
            await asyncio.shield(self._tasks.spawn(ending, f"end of the link of {machine.id}"))

    async def _end(self, link: RunnerLink, namespace: str, machine_id: str) -> None:
        try:
            await self._machines.disconnect(link, namespace, machine_id)
        finally:
            await link.close("it ended")
