"""What the server spends on connections, most of all on those of clients that have not authenticated."""

from __future__ import annotations

import resource
import socket
from dataclasses import dataclass

BACKLOG = 256
"""Connections that the kernel accepts before the server does. They may all arrive at once."""
_RESERVED_FILES = BACKLOG + 64
"""Open files besides connections: databases, pipes of agents, and the backlog."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Times in seconds."""

    connections: int = 1_000
    """Of clients that have not authenticated."""
    address_connections: int = 250
    """The same from one address."""
    open_connections: int | None = None
    """Of all clients; None for what the limit of open files allows."""
    header_timeout: float = 10.0
    """From the opening of a connection, or from the first byte of a later request, to the end of the headers."""
    body_timeout: float = 60.0
    """How long a body may make no progress."""
    keep_alive_timeout: int = 75
    """Between requests."""
    write_timeout: float = 60.0
    """How long a client may read nothing of a response. Live events have their own limit."""
    close_timeout: float = 5.0
    """How long the last response may take to be sent before the connection is aborted."""


PEER_TIMEOUT_SECONDS = 60
"""How long the system keeps a connection whose peer acknowledges nothing, because its machine or network is gone, or
takes no bytes, because its program is stopped."""
_KEEP_ALIVE_PROBES = 3


def watch_peers(listener: socket.socket) -> None:
    """Let the system find peers that are gone without a word. Accepted connections inherit it.

    A connection on which nothing is sent is probed; one on which something is sent is given up when the peer does not
    take it. Without this, the latter takes a quarter of an hour and the former two hours.
    """
    interval = PEER_TIMEOUT_SECONDS // (_KEEP_ALIVE_PROBES + 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": interval,
        "TCP_KEEPALIVE": interval,  # the same on macOS
        "TCP_KEEPINTVL": interval,
        "TCP_KEEPCNT": _KEEP_ALIVE_PROBES,
        "TCP_USER_TIMEOUT": PEER_TIMEOUT_SECONDS * 1000,
    }
    for name, value in options.items():
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def file_limit() -> int:
    """Return the number of connections for which there are enough open files, so that accepting never fails."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        files = 2**20
    return max(files - _RESERVED_FILES, files // 2)
