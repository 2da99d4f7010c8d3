"""A bound on clients that have not authenticated, in all and per address."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Abortable(Protocol):
    def abort(self) -> None:
        """Close the connection now."""
        ...


C = TypeVar("C", bound=Abortable)


@dataclass(slots=True)
class _Address(Generic[C]):
    name: str
    clients: int = 0
    waiting: OrderedDict[C, None] = field(default_factory=OrderedDict[C, None])


class ConnectionLimit(Generic[C]):
    """Counts clients from their connection until they authenticate. Every operation takes constant time.

    A client is waiting while the server waits for bytes of it. When a limit is reached, the client that has waited
    longest is aborted to make room. So a flood of connections cannot keep others out, and a client that authenticates
    is never affected: it leaves the count with its first request.

    Args:
        total: The number of clients that have not authenticated.
        per_address: The same from one address.
        open_total: The number of all clients, authenticated or not.
    """

    def __init__(self, total: int, per_address: int, open_total: int | None = None) -> None:
        self._total = total
        self._per_address = per_address
        self._open_total = open_total
        self._addresses: dict[str, _Address[C]] = {}
        self._counted: dict[C, _Address[C] | None] = {}
        """Those that have not authenticated; None if the address is not limited."""
        self._authenticated: set[C] = set()
        self._waiting: OrderedDict[C, None] = OrderedDict()
        """The longest waiting first."""

    def __len__(self) -> int:
        """The number of clients that have not authenticated."""
        return len(self._counted)

    def add(self, client: C, address: str | None) -> bool:
        """Count a new client, which waits. `address` is None if its address is not limited.

        Returns:
            False if there is no room for it and nobody waits.
        """
        group = None if address is None else self._addresses.get(address)
        if group is not None and group.clients >= self._per_address:
            if not self._abort_first(group.waiting):
                return False
        elif self._is_full() and not self._abort_first(self._waiting):
            return False
        if address is not None:
            group = self._addresses.setdefault(address, _Address(address))
            group.clients += 1
        self._counted[client] = group
        self.set_waiting(client)
        return True

    def set_waiting(self, client: C) -> None:
        """The server waits for bytes of this client from now on. Without effect on one that is not counted."""
        if client not in self._counted:
            return
        group = self._counted[client]
        for waiting in (self._waiting,) if group is None else (self._waiting, group.waiting):
            waiting[client] = None
            waiting.move_to_end(client)

    def set_busy(self, client: C) -> None:
        """The server works for this client from now on."""
        self._waiting.pop(client, None)
        group = self._counted.get(client)
        if group is not None:
            group.waiting.pop(client, None)

    def set_authenticated(self, client: C) -> None:
        """Count it no longer. Idempotent, also after `remove`."""
        if client in self._counted:
            self._uncount(client)
            self._authenticated.add(client)

    def replace(self, client: C, successor: C) -> None:
        """Count `successor`, which waits, instead of a client that is counted or authenticated."""
        if client in self._counted:
            group = self._counted[client]
            self._uncount(client)
            if group is not None:
                group = self._addresses.setdefault(group.name, group)
                group.clients += 1
            self._counted[successor] = group
            self.set_waiting(successor)
        elif client in self._authenticated:
            self._authenticated.remove(client)
            self._authenticated.add(successor)

    def remove(self, client: C) -> None:
        """Forget a client whose connection has ended. Idempotent."""
        self._authenticated.discard(client)
        if client in self._counted:
            self._uncount(client)

    def _uncount(self, client: C) -> None:
        self.set_busy(client)
        group = self._counted.pop(client)
        if group is not None:
            group.clients -= 1
            if not group.clients:
                del self._addresses[group.name]

    def _is_full(self) -> bool:
        if len(self._counted) >= self._total:
            return True
        return self._open_total is not None and (
            len(self._counted) + len(self._authenticated) >= self._open_total
        )

    def _abort_first(self, waiting: OrderedDict[C, None]) -> bool:
        if not waiting:
            return False
        client = next(iter(waiting))
        self.remove(client)
        client.abort()
        return True
