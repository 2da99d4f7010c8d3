"""Agents killed around the moment they get a message.

It never runs twice, and is unknown only if nobody can know.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from farsteer.agents.demo.history import read_conversation
from farsteer.core import events as ev
from farsteer.core.queue import ItemState
from tests.scenarios.chat import Chat
from tests.scenarios.world import World
from tests.support.eventually import eventually

pytestmark = pytest.mark.faults

KILLS = int(os.environ.get("AGENT_KILLS", "40"))


@pytest.fixture
async def world(home: Path) -> AsyncIterator[World]:
    async with World.connected(home) as world:
        yield world


def taken(chat: Chat) -> Counter[str]:
    """How often the agent has stored each message."""
    _, records = read_conversation(chat.adapter.plans[0].state_dir, str(chat.state.native_id))
    return Counter(record["text"] for record in records if record["role"] == "user")


def kill(pid: int) -> None:
    """Return when it is dead: until then its last read may take what is written. The runner has not noticed yet."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def test_a_message_after_the_kill_is_never_unknown(world: World, endurance_seed: int) -> None:
    rng = random.Random(endurance_seed)
    chat = await world.create()
    await chat.say("say first")
    for n in range(KILLS):
        kill(chat.pid)
        await asyncio.sleep(rng.choice([0, 0, rng.uniform(0, 0.03)]))
        item = await chat.send(f"say {n}")
        turn = await chat.turn(item)
        assert (turn.reason, turn.answer, turn.error) == (ev.TurnEndReason.END_TURN, str(n), None)
        assert chat.outcomes(item) == [ItemState.DELIVERED]
    assert set(taken(chat).values()) == {1}


async def test_a_message_that_a_stopped_agent_cannot_read_is_never_unknown(world: World) -> None:
    chat = await world.create()
    await chat.say("say first")
    for n in range(KILLS // 4):
        agent = psutil.Process(chat.pid)
        agent.suspend()
        await eventually(lambda agent=agent: agent.status() == psutil.STATUS_STOPPED)
        item = await chat.send(f"say {n}")
        await chat.until(ev.UserMessage, item_id=item)
        agent.kill()
        assert (await chat.turn(item)).answer == str(n)
        assert chat.outcomes(item) == [ItemState.DELIVERED]
    assert set(taken(chat).values()) == {1}


async def test_a_kill_at_a_random_moment_runs_no_message_twice(world: World, endurance_seed: int) -> None:
    rng = random.Random(endurance_seed)
    chat = await world.create()
    await chat.say("say first")
    sent: dict[str, str] = {}
    for n in range(KILLS):
        item = await chat.send(f"say {n}")
        sent[item] = f"say {n}"
        await asyncio.sleep(rng.uniform(0, 0.012))
        with suppress(ProcessLookupError):
            os.kill(chat.pid, signal.SIGKILL)
        await chat.turn(item)
    counts = taken(chat)
    outcomes = Counter[ItemState]()
    for item, text in sent.items():
        outcome = await chat.outcome(item)
        outcomes[outcome] += 1
        assert len(chat.of(ev.TurnStart, item_id=item)) == len(chat.of(ev.UserMessage, item_id=item)) == 1
        assert counts[text] == 1 if outcome is ItemState.DELIVERED else counts[text] <= 1
    print(dict(outcomes))
    assert set(outcomes) <= {ItemState.DELIVERED, ItemState.UNKNOWN}
