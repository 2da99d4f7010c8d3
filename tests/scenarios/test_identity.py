"""Identity and resume: which conversation an agent is started with, whatever happened before."""

from __future__ import annotations

from farsteer.core.launch import Start
from tests.scenarios.chat import Chat


async def test_01_fresh_create(chat: Chat) -> None:
    await chat.say("say hello")
    (plan,) = chat.adapter.plans
    assert plan.decision.start is Start.CREATE
    assert plan.decision.native_id == chat.id
    assert chat.state.registered
    assert chat.state.native_id == chat.id
    assert (await chat.view()).native_id == chat.id
