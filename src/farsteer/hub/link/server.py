"""Accepts runners: performs the handshake and keeps each connection until it ends.

A runner has to prove that it is the machine it names before anything changes: until then no other link is closed and
nothing is stored.
"""

from __future__ import annotations

import asyncio
import logging
import secrets

from msgspec.structs import replace

from farsteer.core.errors import Forbidden, NotFound, QuotaExceeded
from farsteer.core.ids import is_uuid
from farsteer.core.wire import encode
from farsteer.hub.auth.tokens import Tokens
from farsteer.hub.feed import Feed
from farsteer.hub.link.connection import RunnerConnection, RunnerTransport
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.metrics import Metrics
from farsteer.hub.rules.bounds import bounded_machine, bounded_sessions
from farsteer.hub.services.messages import MessageDelivery
from farsteer.hub.store.base import Store
from farsteer.hub.tasks import BackgroundTasks
from farsteer.link.identity import KEY_BYTES, NONCE_BYTES, is_valid_proof
from farsteer.link.messages import PROTOCOL, Challenge, Hello, Proof, Refused, ToHub
from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed

_logger = logging.getLogger(__name__)

_MAX_MACHINE_BYTES = 256 * 1024
"""The size of what a machine says about itself, agents and models included."""
_MAX_SESSIONS = 100_000
"""Sessions of one machine."""


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
        max_machines: int,
    ) -> None:
        self._store = store
        self._feed = feed
        self._links = links
        self._delivery = delivery
        self._metrics = metrics
        self._tasks = tasks
        self._idle_timeout = idle_timeout
        self._max_machines = max_machines
        self._connections: dict[asyncio.Task[None], str | None] = {}
        """The task of each connection, with the id of the token that it was opened with."""
        self._closing = False
        self._tokens = tokens
        tokens.on_revoke(self._close_connections_of)

    async def serve(self, transport: RunnerTransport, namespace: str, *, token_id: str | None = None) -> None:
        """Serve one runner and return when its connection has ended, at the latest when the token is revoked."""
        # A token may be revoked while its connection is being accepted.
        revoked = token_id is not None and not self._tokens.is_valid(token_id)
        if self._closing or revoked:
            await transport.close()
            return
        # A task of its own, so that cancelling the caller still disconnects the machine in order.
        connection = self._tasks.spawn(self._serve(transport, namespace, token_id), "link")
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

    async def _serve(self, transport: RunnerTransport, namespace: str, token_id: str | None) -> None:
        try:
            receiver = IdleTimeoutReceiver(transport, self._idle_timeout)
            hello = await receiver.receive_first()
            if not isinstance(hello, Hello):
                raise LinkClosed("the runner did not send hello")
            try:
                hello = _checked_hello(hello)
                await self._verify(transport, receiver, namespace, hello)
            except (Forbidden, QuotaExceeded) as error:
                _logger.warning(
                    "refused a runner (token %s) as machine %.40r: %s",
                    token_id, hello.machine.id, error.message,
                )  # fmt: skip
                await transport.send(Refused(reason=error.message))
                return
            await self._run_connection(transport, namespace, hello)
        except LinkClosed as closed:
            _logger.info("link closed: %s", closed)
        except NotFound:
            _logger.info("link closed: the machine was removed while it connected")
        except Exception:
            # The runner reconnects and sends again what was not acknowledged.
            _logger.exception("link failed")
        finally:
            await transport.close()

    async def _verify(
        self, transport: RunnerTransport, receiver: IdleTimeoutReceiver[ToHub], namespace: str, hello: Hello
    ) -> None:
        """Let the runner prove that it is the machine it names. Raises Forbidden, or LinkClosed without an answer."""
        machine, nonce = hello.machine, secrets.token_bytes(NONCE_BYTES)
        await transport.send(Challenge(nonce=nonce))
        proof = await receiver.receive_first()
        if not isinstance(proof, Proof):
            raise LinkClosed("the runner did not prove its identity")
        if not is_valid_proof(hello.key, proof.signature, nonce, machine.id, transport.token_digest):
            raise Forbidden("the runner has not proved that it has the key of this machine")
        await self._store.enrol_machine(namespace, machine, hello.key, limit=self._max_machines)

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
        finally:
            ending = self._disconnect(connection, namespace, machine.id)
            await asyncio.shield(self._tasks.spawn(ending, f"disconnection of machine {machine.id}"))

    async def _disconnect(self, connection: RunnerConnection, namespace: str, machine_id: str) -> None:
        try:
            await self._links.disconnect(connection, namespace, machine_id)
        finally:
            await connection.close("it has ended")


def _checked_hello(hello: Hello) -> Hello:
    """Return the hello with names that are clean and bounded. Raises Forbidden if this hub cannot serve the runner."""
    if hello.protocol < PROTOCOL or len(hello.key) != KEY_BYTES:
        raise Forbidden(
            f"update farsteer on this machine: the hub speaks link protocol {PROTOCOL}, this runner {hello.protocol}"
        )
    if hello.protocol > PROTOCOL:
        raise Forbidden(
            f"update farsteer on the hub: it speaks link protocol {PROTOCOL}, this runner {hello.protocol}"
        )
    if not is_uuid(hello.machine.id):
        raise Forbidden("a machine's id must be a UUID")
    if len(hello.sessions) > _MAX_SESSIONS:
        raise Forbidden(f"a machine may have {_MAX_SESSIONS} sessions; delete some")
    if len(encode(hello.machine)) > _MAX_MACHINE_BYTES:
        raise Forbidden(f"what the machine says about itself is larger than {_MAX_MACHINE_BYTES} bytes")
    return replace(hello, machine=bounded_machine(hello.machine), sessions=bounded_sessions(hello.sessions))
