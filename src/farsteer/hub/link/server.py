"""Accepts runners: performs the handshake and keeps each connection until it ends."""

from __future__ import annotations

import asyncio
import logging

from farsteer.core.errors import Forbidden
from farsteer.core.ids import is_uuid
from farsteer.hub.auth.tokens import Tokens
from farsteer.hub.feed import Feed
from farsteer.hub.link.connection import RunnerConnection, RunnerTransport
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.metrics import Metrics
from farsteer.hub.services.messages import MessageDelivery
from farsteer.hub.store.base import Store
from farsteer.hub.tasks import BackgroundTasks
from farsteer.link.messages import PROTOCOL, Hello, Refused
from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed

_logger = logging.getLogger(__name__)


class LinkServer:
    def __init__(
        self,
        store: Store,
        feed: Feed,
        links: MachineLinks,
        delivery: MessageDelivery,
        tokens: Tokens,
        metrics: Metrics,
        tasks: BackgroundTasks,
        idle_timeout: float,
    ) -> None:
        self._store = store
        self._feed = feed
        self._links = links
        self._delivery = delivery
        self._metrics = metrics
        self._tasks = tasks
        self._idle_timeout = idle_timeout
        self._connections: dict[asyncio.Task[None], str | None] = {}
        """The task of each connection, with the id of the token that it was opened with."""
        self._closing = False
        tokens.on_revoke(self._close_connections_of)

    async def serve(self, transport: RunnerTransport, namespace: str, *, token_id: str | None = None) -> None:
        """Serve one runner and return when its connection has ended, at the latest when the token is revoked."""
        if self._closing:
            await transport.close()
            return
        # A task of its own, so that cancelling the caller still disconnects the machine in order.
        connection = self._tasks.spawn(self._serve(transport, namespace), "link")
        self._connections[connection] = token_id
        connection.add_done_callback(lambda ended: self._connections.pop(ended, None))
        try:
            await asyncio.wait([connection])
        except asyncio.CancelledError:
            connection.cancel()
            raise

    async def close(self) -> None:
        """Close all connections and refuse new ones."""
        self._closing = True
        connections = [*self._connections]
        for connection in connections:
            connection.cancel()
        if connections:
            await asyncio.wait(connections)

    def _close_connections_of(self, token_id: str) -> None:
        for connection, opened_with in self._connections.items():
            if opened_with == token_id:
                _logger.info("closing a link because its token was revoked")
                connection.cancel()

    async def _serve(self, transport: RunnerTransport, namespace: str) -> None:
        try:
            hello = await self._receive_hello(transport)
            if hello is not None:
                await self._run_connection(transport, namespace, hello)
        except LinkClosed as closed:
            _logger.info("link closed: %s", closed)
        except Exception:
            # The runner reconnects and sends again what was not acknowledged.
            _logger.exception("link failed")
        finally:
            await transport.close()

    async def _receive_hello(self, transport: RunnerTransport) -> Hello | None:
        """Return the runner's hello, or None after it was refused. Raises LinkClosed."""
        hello = await IdleTimeoutReceiver(transport, self._idle_timeout).receive_first()
        if not isinstance(hello, Hello):
            raise LinkClosed("the runner did not send hello")
        if hello.protocol != PROTOCOL:
            reason = f"this hub speaks link protocol {PROTOCOL}, the runner {hello.protocol}"
        elif not is_uuid(hello.machine.id):
            reason = "a machine's id must be a UUID"
        else:
            return hello
        await transport.send(Refused(reason=reason))
        return None

    async def _run_connection(self, transport: RunnerTransport, namespace: str, hello: Hello) -> None:
        machine = hello.machine
        connection = RunnerConnection(
            transport, namespace, machine.id, store=self._store, feed=self._feed, metrics=self._metrics,
            idle_timeout=self._idle_timeout,
        )  # fmt: skip
        try:
            connected = await self._links.connect(connection, namespace, machine, hello.sessions)
            await connection.send_welcome(connected)
            _logger.info("machine %s (%s) is connected", machine.id, machine.host)
            await self._delivery.start_all(namespace, machine.id)
            await connection.run()
        except Forbidden as error:
            await transport.send(Refused(reason=error.message))
        finally:
            ending = self._disconnect(connection, namespace, machine.id)
            await asyncio.shield(self._tasks.spawn(ending, f"disconnection of machine {machine.id}"))

    async def _disconnect(self, connection: RunnerConnection, namespace: str, machine_id: str) -> None:
        try:
            await self._links.disconnect(connection, namespace, machine_id)
        finally:
            await connection.close("it has ended")
