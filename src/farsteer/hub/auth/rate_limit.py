"""A limit on failed sign-ins per client address.

A valid token is never refused, whoever else fails from the same address. The limit keeps failures from filling logs and
tells a misconfigured client to slow down; what keeps a token from being guessed is its length. A pairing code is short:
there the limit comes before the code is looked at (`check`), so that it bounds the guesses too.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from farsteer.core.errors import RateLimited


class FailureLimit:
    """A token bucket per key: `allowed` failures at once, then one more every `seconds / allowed`.

    Counts are kept in this process. With a second hub each of them would allow `allowed` failures; counting them
    together needs a shared counter behind `record`.
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
        """Raise RateLimited if `key` has no failure left: for secrets short enough that each guess must be refused."""
        self._next_full_at(key)

    def record(self, key: str) -> None:
        """Count a failure. Raises RateLimited with `retryAfter` in seconds if `key` had no failure left."""
        self._full_at[key] = self._next_full_at(key)
        self._full_at.move_to_end(key)
        if len(self._full_at) > self._max_keys:
            self._full_at.popitem(last=False)

    def _next_full_at(self, key: str) -> float:
        """Return when the bucket would be full again after another failure."""
        now = self._clock()
        full_at = max(self._full_at.get(key, now), now)
        wait = full_at - now - (self._allowed - 1) * self._seconds_per_failure
        if wait > 0:
            seconds = math.ceil(wait)
            raise RateLimited(f"too many failures; try again in {seconds} s", retryAfter=seconds)
        return full_at + self._seconds_per_failure
