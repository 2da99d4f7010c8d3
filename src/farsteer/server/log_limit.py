"""Log lines about what clients do wrong: at most one per address and minute."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable

_SECONDS = 60.0
_MAX_ADDRESSES = 100


class LogLimit:
    """Logs warnings about clients. Lines that were left out are counted in the next one of the same address.

    At most `max_addresses` lines are logged per minute, whatever the number of addresses.
    """

    def __init__(
        self,
        logger: logging.Logger,
        *,
        seconds: float = _SECONDS,
        max_addresses: int = _MAX_ADDRESSES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._seconds = seconds
        self._max_addresses = max_addresses
        self._clock = clock
        self._lines: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """When the last line of an address was logged, oldest first, and how many were left out since."""

    def warning(self, address: str, message: str) -> None:
        """Log the message with the address, or count it."""
        now = self._clock()
        logged_at, left_out = self._lines.get(address, (float("-inf"), 0))
        if now - logged_at < self._seconds:
            self._lines[address] = (logged_at, left_out + 1)
            return
        self._lines.pop(address, None)
        if len(self._lines) >= self._max_addresses:
            oldest, (oldest_at, _) = next(iter(self._lines.items()))
            if now - oldest_at < self._seconds:
                return
            del self._lines[oldest]
        self._lines[address] = (now, 0)
        more = f" ({left_out} more in the last minute)" if left_out else ""
        self._logger.warning("%s: %s%s", address or "a client", message, more)
