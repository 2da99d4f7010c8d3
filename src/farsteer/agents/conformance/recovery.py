"""Contracts of a conversation that cannot be opened as asked: the code says what is wrong, and nothing has changed."""

from __future__ import annotations

import pytest

from farsteer.agents.base import LaunchPlan
from farsteer.agents.conformance.contract import Conformance, contract, declared, if_able
from farsteer.agents.conformance.memory import recall, remember
from farsteer.agents.conformance.stage import Stage
from farsteer.core.errors import AgentError, ErrorCode, NotCapable
from farsteer.core.ids import new_id


class RecoveryContracts(Conformance):
    @contract
    async def test_a_conversation_that_is_not_there_cannot_be_resumed(self, stage: Stage) -> None:
        plan = stage.plan(resume=new_id())
        if stage.adapter.capabilities.resume:
            await _fails(stage, plan, ErrorCode.CONVERSATION_MISSING)
        else:
            with pytest.raises(NotCapable):
                await stage.launch(plan)

    @contract
    async def test_a_conversation_that_is_there_cannot_be_created(self, stage: Stage) -> None:
        declared(stage, "caller_chosen_id", "resume")
        scene = await stage.launch()
        await remember(stage, scene, "apricot")
        await scene.launch.stop()
        plan = stage.plan(session_id=scene.plan.session_id)
        await _fails(stage, plan, ErrorCode.CONVERSATION_IN_USE)
        assert "apricot" in await recall(stage, await stage.again(scene))

    @contract
    async def test_a_cut_at_an_unknown_place_is_told_and_cuts_nothing(self, stage: Stage) -> None:
        declared(stage, "resume", "rewind")
        scene = await stage.launch()
        await remember(stage, scene, "apricot")
        await scene.launch.stop()
        plan = stage.plan(
            session_id=scene.plan.session_id, resume=scene.launch.native_id, cut_at=f"nowhere-{new_id()}"
        )
        await _fails(stage, plan, ErrorCode.ANCHOR_UNKNOWN)
        assert "apricot" in await recall(stage, await stage.again(scene))

    @contract
    async def test_a_fork_of_what_is_gone_is_told(self, stage: Stage) -> None:
        declared(stage, "fork")
        plan = stage.plan(fork_of=new_id())
        await _fails(stage, plan, ErrorCode.CONVERSATION_MISSING)
        scene = await stage.launch(stage.plan(session_id=plan.session_id))
        await scene.turn(stage.script.answer)

    @contract
    async def test_a_fork_at_an_unknown_place_is_told_and_begins_nothing(self, stage: Stage) -> None:
        declared(stage, "fork")
        scene = await stage.launch()
        await remember(stage, scene, "apricot")
        source = scene.launch.native_id
        plan = stage.plan(fork_of=source, cut_at=f"nowhere-{new_id()}")
        await _fails(stage, plan, ErrorCode.ANCHOR_UNKNOWN)
        with if_able():
            fork = await stage.launch(stage.plan(session_id=plan.session_id, fork_of=source))
        assert "apricot" in await recall(stage, fork)


async def _fails(stage: Stage, plan: LaunchPlan, code: ErrorCode) -> None:
    before = set(stage.leftovers())
    with if_able(), pytest.raises(AgentError) as caught:
        await stage.launch(plan)
    assert caught.value.code is code, caught.value.message
    assert set(stage.leftovers()) <= before, "a start that fails leaves no process"
