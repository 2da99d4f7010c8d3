"""Bad input of one address costs one log line per minute."""

import logging

import pytest

from farsteer.server.log_limit import LogLimit


def test_one_line_per_address_and_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    limit = LogLimit(logging.getLogger("test"), clock=lambda: now)
    for _ in range(100):
        limit.warning("10.0.0.1", "sent nonsense")
    limit.warning("10.0.0.2", "sent nonsense")
    now = 60.0
    limit.warning("10.0.0.1", "sent nonsense")
    assert caplog.messages == [
        "10.0.0.1: sent nonsense",
        "10.0.0.2: sent nonsense",
        "10.0.0.1: sent nonsense (99 more in the last minute)",
    ]


def test_many_addresses_cost_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    limit = LogLimit(logging.getLogger("test"), max_addresses=10, clock=lambda: now)
    for number in range(1000):
        limit.warning(str(number), "x")
    assert len(caplog.messages) == 10
    now = 61.0
    for number in range(1000):
        limit.warning(str(number), "x")
    assert len(caplog.messages) == 20
