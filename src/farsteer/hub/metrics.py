"""Counters of a running hub, for /metrics. Faces add their own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Metrics:
    events_stored: int = 0
    """Entries of session logs, committed."""
    deltas: int = 0
    """Live fragments passed on."""
    deliveries: int = 0
    """Events given to clients; counted by the faces."""
    clients: int = 0
    """Live sockets and streams; counted by the faces."""
    clients_cut: int = 0
    """Clients cut off because they were too slow; counted by the faces."""
    links: int = 0
    """Machines with a live link."""
    messages_accepted: int = 0
    sessions_created: int = 0
    auth_failures: int = 0
