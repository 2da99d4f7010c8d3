"""A limit on wrong guesses, for each address. A right one costs nothing."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from farsteer.core.errors import RateLimited


class Throttle:
    """A token bucket for each key: `allowed` failures at once, then one more every `seconds / allowed`."""

    def __init__(
        self,
        allowed: int = 10,
        seconds: float = 60.0,
        *,
        max_keys: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowed = allowed
        self._each = seconds / allowed
        self._max_keys = max_keys
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When the bucket of a key will be full again; a key that is absent has a full one."""

    def check(self, key: str) -> None:
        """Refuse the next try while there is no failure left to make."""
        wait = self._full_at.get(key, 0.0) - self._clock() - (self._allowed - 1) * self._each
        if wait > 0:
            seconds = math.ceil(wait)
            raise RateLimited(f"too many failures; try again in {seconds} s", retryAfter=seconds)

    def failed(self, key: str) -> None:
        now = self._clock()
        self._full_at[key] = max(self._full_at.pop(key, now), now) + self._each
        if len(self._full_at) > self._max_keys:
            self._full_at.popitem(last=False)
