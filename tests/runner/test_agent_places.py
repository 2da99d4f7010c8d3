"""A machine runs a limited number of agents."""

import pytest

from farsteer.core.errors import ErrorCode, QuotaExceeded
from farsteer.runner.agent_places import AgentPlaces


def test_a_launch_beyond_the_limit_fails_and_names_the_setting() -> None:
    places = AgentPlaces(2)
    places.take("a")
    places.take("b")
    places.take("a")
    with pytest.raises(QuotaExceeded) as refused:
        places.take("c")
    assert refused.value.code is ErrorCode.QUOTA_EXCEEDED
    assert "live_agents" in refused.value.message
    assert refused.value.details == {"kind": "live_agents", "limit": 2, "used": 2}
    places.release("a")
    places.release("a")
    places.take("c")


def test_prewarming_leaves_the_last_place_free() -> None:
    places = AgentPlaces(2)
    assert places.has_spare
    places.take("a")
    assert not places.has_spare
    assert not AgentPlaces(1).has_spare
