"""How much a live client may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    soft: int = 256 * 1024
    """Unsent bytes above which a client is behind: it gets no more deltas."""
    hard: int = 8 * 1024 * 1024
    """Unsent bytes above which it is cut off; it resumes from its cursor."""
    page: int = 200
    """Events read at a time for a client that catches up."""
    tail: int = 1024 * 1024
    """Bytes of new events kept for it while a page is read."""
    held: int = 256
    """Latest states (typing, presence) kept for a client that is behind."""
    message: int = 64 * 1024
    """The largest frame or body a client may send."""
    stall: float = 30.0
    """Seconds a client that catches up may take to read what it was sent."""
    connect: float = 10.0
    """Seconds from the transport's handshake to a valid token."""
    grace: float = 5.0
    """Seconds a client has to hang up after it was told to."""
    heartbeat: float = 15.0
    """Seconds between SSE comments."""
    ping_interval: float = 25.0
    ping_timeout: float = 20.0
