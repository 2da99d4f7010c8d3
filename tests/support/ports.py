"""Free TCP ports on loopback."""

import os
import socket
from collections.abc import Iterator
from itertools import chain

# Below every system's ephemeral range, so no outgoing connection takes a port between look and use.
FIRST, LAST, SLICES = 20_000, 32_000, 8
_SIZE = (LAST - FIRST) // SLICES


def _slice() -> Iterator[int]:
    """Yield the ports of this xdist worker, starting at a random one, without end."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    base = FIRST + worker % SLICES * _SIZE
    start = os.getpid() * 37 % _SIZE
    while True:
        yield from chain(range(base + start, base + _SIZE), range(base, base + start))


_ports = _slice()


def free_port(host: str = "127.0.0.1") -> int:
    """Return a free port. It is not the previous one and not one of another worker."""
    for port in _ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise AssertionError("the ports are endless")
