import pytest

from farsteer.core.errors import RateLimited
from farsteer.hub.auth.rate_limit import Throttle


def test_failures_come_back_one_by_one() -> None:
    now = 0.0
    throttle = Throttle(allowed=3, seconds=30, clock=lambda: now)

    def attempts() -> int:
        """How many failures are possible now."""
        for count in range(100):
            try:
                throttle.check("a")
            except RateLimited:
                return count
            throttle.failed("a")
        raise AssertionError("without limit")

    assert attempts() == 3
    now = 9.9
    assert attempts() == 0
    now = 10.0
    assert attempts() == 1
    now = 1000.0
    assert attempts() == 3
    throttle.check("b")


def test_memory_is_bounded() -> None:
    throttle = Throttle(allowed=1, seconds=60, max_keys=10, clock=lambda: 0.0)
    for number in range(100):
        throttle.failed(str(number))
    with pytest.raises(RateLimited):
        throttle.check("99")
    throttle.check("0")
