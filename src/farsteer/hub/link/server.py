"""Accepts runners: performs the handshake and keeps each connection until it ends.

A runner has to prove that it is the machine it names before anything changes: until then no other link is closed and
nothing is stored.
"""

from __future__ import annotations

import asyncio
import logging
import secrets

from msgspec.structs import replace

from farsteer import __version__
from farsteer.core.errors import FarsteerError, Forbidden, IdentityInUse, NotFound, QuotaExceeded
from farsteer.core.ids import is_uuid
from farsteer.core.text import clean_line
from farsteer.core.wire import encode
from farsteer.hub.auth.tokens import Tokens
from farsteer.hub.feed import Feed
from farsteer.hub.link.connection import RunnerConnection, RunnerTransport
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.metrics import Metrics
from farsteer.hub.rules.bounds import bounded_held, bounded_machine, bounded_sessions
from farsteer.hub.rules.lease import LeaseClaim
from farsteer.hub.services.delivery import MessageDelivery
from farsteer.hub.services.outcomes import OutcomeReports
from farsteer.hub.store.base import Store
from farsteer.hub.tasks import BackgroundTasks
from farsteer.link.identity import KEY_BYTES, NONCE_BYTES, is_valid_proof
from farsteer.link.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    TRANSFER_PROTOCOL,
    Challenge,
    Hello,
    Proof,
    Refused,
    ToHub,
)
from farsteer.link.transfers import UnfinishedTransfers
from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed

_logger = logging.getLogger(__name__)

_MAX_MACHINE_BYTES = 256 * 1024
"""The size of what a machine says about itself, agents and models included."""
_MAX_LEASE_CHARS = 200
_MAX_SESSIONS = 100_000
"""Sessions of one machine."""
_DISCONNECT_SECONDS = 5.0
"""How long a connection that has ended waits until the store knows it."""


class LinkServer:
    def __init__(
        self,
        store: Store,
        feed: Feed,
        links: MachineLinks,
        delivery: MessageDelivery,
        outcomes: OutcomeReports,
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
        self._outcomes = outcomes
        self._metrics = metrics
        self._tasks = tasks
        self._idle_timeout = idle_timeout
        self._max_machines = max_machines
        self._connections: dict[asyncio.Task[None], str | None] = {}
        """The task of each connection, with the id of the token that it was opened with."""
        self._unfinished = UnfinishedTransfers()
        self._closing = False
        self._tokens = tokens
        tokens.on_revoke(self._close_connections_of)

    async def serve(
        self,
        transport: RunnerTransport,
        namespace: str,
        *,
        token_id: str | None = None,
        in_process: bool = False,
    ) -> None:
        """Serve one runner and return when its connection has ended, at the latest when the token is revoked.

        `in_process`: the runner is part of this process and uses the same home directory.
        """
        # A token may be revoked while its connection is being accepted.
        revoked = token_id is not None and not self._tokens.is_valid(token_id)
        if self._closing or revoked:
            await transport.close()
            return
        # A task of its own, so that cancelling the caller still disconnects the machine in order.
        connection = self._tasks.spawn(
            self._serve(transport, namespace, token_id, in_process=in_process), "link"
        )
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

    async def _serve(
        self, transport: RunnerTransport, namespace: str, token_id: str | None, *, in_process: bool
    ) -> None:
        try:
            receiver = IdleTimeoutReceiver(transport, self._idle_timeout)
            hello = await receiver.receive_first()
            if not isinstance(hello, Hello):
                raise LinkClosed("the runner did not send hello")
            try:
                hello = _checked_hello(hello)
                await self._verify(transport, receiver, namespace, hello)
            except (Forbidden, QuotaExceeded) as error:
                _log_refusal(logging.WARNING, token_id, hello, error)
                await transport.send(Refused(reason=error.message))
                return
            await self._run_connection(transport, namespace, token_id, hello, in_process=in_process)
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
        machine, protocol = hello.machine, chosen_protocol(hello)
        challenge = Challenge(nonce=secrets.token_bytes(NONCE_BYTES), protocol=protocol)
        await transport.send(challenge)
        proof = await receiver.receive_first()
        if not isinstance(proof, Proof):
            raise LinkClosed("the runner did not prove its identity")
        if not is_valid_proof(hello.key, proof.signature, challenge, machine.id, transport.token_digest):
            raise Forbidden("the runner has not proved that it has the key of this machine")
        await self._store.enrol_machine(namespace, machine, hello.key, limit=self._max_machines)
        if protocol >= TRANSFER_PROTOCOL:
            await transport.start_transfers(self._unfinished, f"{namespace}/{machine.id}")

    async def _run_connection(
        self,
        transport: RunnerTransport,
        namespace: str,
        token_id: str | None,
        hello: Hello,
        *,
        in_process: bool,
    ) -> None:
        machine = hello.machine
        connection = RunnerConnection(
            transport, namespace, machine.id, protocol=chosen_protocol(hello), store=self._store, feed=self._feed,
            metrics=self._metrics, idle_timeout=self._idle_timeout,
        )  # fmt: skip
        claim = LeaseClaim(
            instance=hello.instance,
            place=hello.place,
            boot=hello.boot,
            host=machine.host,
            in_process=in_process,
            last=hello.lease,
        )
        try:
            connected = await self._links.connect(connection, namespace, hello, claim)
            await connection.send_welcome(connected, hello.sessions)
            _logger.info("machine %s (%s) is connected", machine.id, machine.host)
            self._outcomes.start(namespace, machine.id)
            self._delivery.start_all(namespace, machine.id)
            await connection.run()
        except IdentityInUse as error:
            _log_refusal(logging.WARNING if error.is_new else logging.DEBUG, token_id, hello, error)
            await transport.send(
                Refused(reason=error.message, code=error.code, retry_after=error.retry_after)
            )
        finally:
            # Until a failed write is repeated the machine looks as if it were connected.
            tasks = (
                self._tasks.spawn_until_done(
                    lambda: self._links.disconnect(connection, namespace, machine.id),
                    f"disconnection of machine {machine.id}",
                ),
                self._tasks.spawn(connection.close("it has ended"), f"closing of a link to {machine.id}"),
            )
            await asyncio.wait(tasks, timeout=_DISCONNECT_SECONDS)


def chosen_protocol(hello: Hello) -> int:
    """Return the newest protocol that both ends speak. Raises Forbidden if there is none."""
    runner_newest = max(hello.newest, hello.protocol)
    newest = min(PROTOCOL, runner_newest)
    if max(OLDEST_PROTOCOL, hello.protocol) <= newest:
        return newest
    where = "on this machine" if newest < OLDEST_PROTOCOL else "on the hub"
    version = clean_line(hello.machine.version, 100)
    raise Forbidden(
        f"update farsteer {where}: the hub is farsteer {__version__} and speaks link protocols"
        f" {describe_protocols(OLDEST_PROTOCOL, PROTOCOL)}, this runner is farsteer {version} and speaks"
        f" {describe_protocols(hello.protocol, runner_newest)}"
    )


def describe_protocols(oldest: int, newest: int) -> str:
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


def _log_refusal(level: int, token_id: str | None, hello: Hello, error: FarsteerError) -> None:
    machine = hello.machine
    _logger.log(
        level, "refused a runner (token %s) as machine %.40r on %s: %s",
        token_id, machine.id, machine.host, error.message,
    )  # fmt: skip


def _checked_hello(hello: Hello) -> Hello:
    """Return the hello with names that are clean and bounded. Raises Forbidden if this hub cannot serve the runner."""
    chosen_protocol(hello)
    if len(hello.key) != KEY_BYTES:
        raise Forbidden("the runner has not named the key of its machine")
    if not is_uuid(hello.machine.id):
        raise Forbidden("a machine's id must be a UUID")
    if len(hello.sessions) > _MAX_SESSIONS:
        raise Forbidden(f"a machine may have {_MAX_SESSIONS} sessions; delete some")
    if max(len(hello.instance), len(hello.place), len(hello.boot)) > _MAX_LEASE_CHARS:
        raise Forbidden("the runner's instance, place or boot is too long")
    if len(encode(hello.machine)) > _MAX_MACHINE_BYTES:
        raise Forbidden(f"what the machine says about itself is larger than {_MAX_MACHINE_BYTES} bytes")
    sessions = bounded_sessions(hello.sessions)
    return replace(
        hello,
        machine=bounded_machine(hello.machine),
        sessions=sessions,
        confirmed={id: seq for id, seq in hello.confirmed.items() if id in sessions},
        held=bounded_held(hello.held),
    )
