"""The counters of a running hub that `/metrics` reports. The faces count too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Metrics:
    events_stored: int = 0
    """Entries of session logs that were committed."""
    deltas: int = 0
    """Deltas that were forwarded."""
    deliveries: int = 0
    """Events sent to clients. Counted by the faces."""
    clients: int = 0
    """Open sockets and streams. Counted by the faces."""
    clients_cut: int = 0
    """Clients that were disconnected because they were too slow. Counted by the faces."""
    buffered_bytes: int = 0
    """Bytes that wait for clients that are behind. Counted by the faces."""
    links: int = 0
    """Machines with a live link."""
    messages_accepted: int = 0
    sessions_created: int = 0
    auth_failures: int = 0
