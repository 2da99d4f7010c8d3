"""The limit on failed sign-ins."""

import pytest

from farsteer.core.errors import RateLimited
from farsteer.hub.auth.rate_limit import FailureLimit


def test_failures_are_allowed_again_one_by_one() -> None:
    now = 0.0
    limit = FailureLimit(allowed=3, seconds=30, clock=lambda: now)

    def attempts() -> int:
        """Return how many failures are allowed now."""
        for count in range(100):
            try:
                limit.record("a")
            except RateLimited:
                return count
        raise AssertionError("without limit")

    assert attempts() == 3
    now = 9.9
    assert attempts() == 0
    now = 10.0
    assert attempts() == 1
    now = 1000.0
    assert attempts() == 3
    limit.record("b")


def test_memory_is_bounded() -> None:
    limit = FailureLimit(allowed=1, seconds=60, max_keys=10, clock=lambda: 0.0)
    for number in range(100):
        limit.record(str(number))
    with pytest.raises(RateLimited):
        limit.record("99")
    limit.record("0")
