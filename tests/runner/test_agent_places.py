"""A machine runs a limited number of agents, and starts a few of them at a time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from farsteer.core.errors import ErrorCode, QuotaExceeded
from farsteer.runner import agent_places
from farsteer.runner.agent_places import AgentPlaces
from tests.support.eventually import eventually


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


async def started(places: AgentPlaces, session: str, *, prewarmed: bool = False) -> asyncio.Event:
    """Begin a start, which lasts until the returned event is set. `running` has those that run."""
    end = asyncio.Event()

    async def start() -> None:
        async with places.start(session, prewarmed=prewarmed):
            running.append(session)
            await end.wait()
            running.remove(session)

    tasks.append(asyncio.create_task(start()))
    await settle()
    return end


running: list[str] = []
tasks: list[asyncio.Task[None]] = []


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def clean() -> AsyncIterator[None]:
    running.clear()
    tasks.clear()
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.usefixtures("clean")
async def test_a_few_agents_start_at_a_time_and_needed_ones_first() -> None:
    places = AgentPlaces(starts=4)
    first = await started(places, "prewarmed 1", prewarmed=True)
    await started(places, "prewarmed 2", prewarmed=True)
    assert running == ["prewarmed 1"], "prewarmed ones use a part of the starts"
    ends = [await started(places, f"needed {n}") for n in range(4)]
    assert running == ["prewarmed 1", "needed 0", "needed 1", "needed 2"]
    first.set()
    await settle()
    assert running == ["needed 0", "needed 1", "needed 2", "needed 3"]
    for end in ends:
        end.set()
    await settle()
    assert running == ["prewarmed 2"]


@pytest.mark.usefixtures("clean")
async def test_a_prewarmed_start_that_a_message_waits_for_comes_first() -> None:
    places = AgentPlaces(starts=4)
    await started(places, "a", prewarmed=True)
    await started(places, "b", prewarmed=True)
    await started(places, "c", prewarmed=True)
    places.hurry("c")
    await settle()
    assert running == ["a", "c"]


@pytest.mark.usefixtures("clean")
async def test_a_start_that_is_cancelled_while_it_waits_takes_no_turn() -> None:
    places = AgentPlaces(starts=1)
    end = await started(places, "a")
    await started(places, "b")
    await started(places, "c")
    tasks[1].cancel()
    await settle()
    end.set()
    await settle()
    assert running == ["c"]


@pytest.mark.usefixtures("clean")
async def test_an_agent_that_hangs_at_its_start_does_not_keep_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_places, "_START_SECONDS", 0.01)
    places = AgentPlaces(starts=1)
    await started(places, "hanging")
    await started(places, "next")
    await eventually(lambda: running == ["hanging", "next"])
