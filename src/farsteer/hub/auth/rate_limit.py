"""A limit on failed sign-ins per client address. Successful ones are not counted."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from farsteer.core.errors import RateLimited


class FailureLimit:
    """A token bucket per key: `allowed` failures at once, then one more every `seconds / allowed`.

    Counts are kept in this process. With a second hub each of them would allow `allowed` failures; counting them
    together needs a shared counter behind `check` and `record_failure`.
    """

    def __init__(
        self,
        allowed: int = 10,
        seconds: float = 60.0,
        *,
        max_keys: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowed = allowed
        self._seconds_per_failure = seconds / allowed
        self._max_keys = max_keys
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When the bucket of a key is full again. A key that is absent has a full bucket."""

    def check(self, key: str) -> None:
        """Raise RateLimited with `retryAfter` in seconds if `key` has no failure left."""
        wait = self._full_at.get(key, 0.0) - self._clock() - (self._allowed - 1) * self._seconds_per_failure
        if wait > 0:
            seconds = math.ceil(wait)
            raise RateLimited(f"too many failures; try again in {seconds} s", retryAfter=seconds)

    def record_failure(self, key: str) -> None:
        now = self._clock()
        self._full_at[key] = max(self._full_at.pop(key, now), now) + self._seconds_per_failure
        if len(self._full_at) > self._max_keys:
            self._full_at.popitem(last=False)
