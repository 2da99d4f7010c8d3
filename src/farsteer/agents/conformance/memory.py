"""Contracts of a conversation that outlives its process: identity, resume, rewind, fork."""

from __future__ import annotations

import pytest

from farsteer.agents.base import Registered
from farsteer.agents.conformance.contract import Conformance, contract, given
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.core.errors import AgentError, NotCapable
from farsteer.core.events import AgentMessage
from farsteer.core.ids import new_id


class MemoryContracts(Conformance):
    @contract
    async def test_the_native_id_is_known_and_registered_with_the_first_turn(self, stage: Stage) -> None:
        scene = await stage.launch()
        if stage.adapter.capabilities.caller_chosen_id:
            assert scene.launch.native_id == scene.plan.session_id
            assert not stage.has_transcript(scene.plan.session_id), "an unused conversation leaves nothing"
        await scene.turn(stage.script.answer)
        assert scene.launch.native_id is not None
        if stage.adapter.capabilities.resume:
            assert [output.native_id for output in scene.of(Registered)] == [scene.launch.native_id]
        if stage.adapter.capabilities.caller_chosen_id and stage.adapter.capabilities.resume:
            assert stage.has_transcript(scene.plan.session_id)

    @contract
    async def test_a_resumed_conversation_has_its_context_and_its_id(self, stage: Stage) -> None:
        scene = await stage.launch()
        if not stage.adapter.capabilities.resume:
            await _refused(stage, scene)
            return
        await _remember(stage, scene, "apricot")
        again = await stage.again(scene)
        assert "apricot" in await _recall(stage, again)
        assert again.launch.native_id == scene.launch.native_id
        third = await stage.again(again)
        assert "apricot" in await _recall(stage, third)

    @contract
    async def test_a_conversation_that_is_not_there_cannot_be_resumed(self, stage: Stage) -> None:
        with pytest.raises((AgentError, NotCapable)):
            await stage.launch(stage.plan(resume=new_id()))
        assert stage.leftovers() == []

    @contract
    async def test_a_rewound_conversation_knows_nothing_after_the_cut(self, stage: Stage) -> None:
        scene = await stage.launch()
        if not stage.adapter.capabilities.rewind:
            await _refused(stage, scene, cut_at="anywhere")
            return
        await _remember(stage, scene, "apricot")
        anchor = _anchor(scene)
        await _remember(stage, scene, "walnut")
        again = await stage.again(scene, cut_at=anchor)
        words = await _recall(stage, again)
        assert "apricot" in words
        assert "walnut" not in words
        assert "walnut" not in await _recall(stage, await stage.again(again)), "the cut is for good"

    @contract
    async def test_a_fork_knows_the_past_and_leaves_its_source_alone(self, stage: Stage) -> None:
        scene = await stage.launch()
        if not stage.adapter.capabilities.fork:
            with pytest.raises(NotCapable):
                await stage.launch(stage.plan(fork_of=scene.launch.native_id or scene.plan.session_id))
            return
        await _remember(stage, scene, "apricot")
        anchor = _anchor(scene)
        await _remember(stage, scene, "walnut")
        fork = await stage.launch(stage.plan(fork_of=scene.launch.native_id, cut_at=anchor))
        assert fork.launch.native_id != scene.launch.native_id
        await _remember(stage, fork, "cherry")
        words = await _recall(stage, fork)
        assert "apricot" in words
        assert "walnut" not in words
        source = await _recall(stage, await stage.again(scene))
        assert "walnut" in source
        assert "cherry" not in source


async def _remember(stage: Stage, scene: Scene, word: str) -> None:
    await scene.turn(given(stage.script.remember).format(word=word))


async def _recall(stage: Stage, scene: Scene) -> str:
    """What it answers, without what it said before."""
    before = len(scene.words())
    await scene.turn(given(stage.script.recall))
    return scene.words()[before:]


def _anchor(scene: Scene) -> str:
    anchor = scene.events(AgentMessage)[-1].anchor
    assert anchor is not None, "an agent that can rewind names where"
    return anchor


async def _refused(stage: Stage, scene: Scene, cut_at: str | None = None) -> None:
    native_id = scene.launch.native_id or scene.plan.session_id
    with pytest.raises(NotCapable):
        await stage.launch(stage.plan(session_id=scene.plan.session_id, resume=native_id, cut_at=cut_at))
