"""Contracts of a conversation that outlives its process: identity, resume, rewind, fork.

`recovery` has those of a conversation that cannot be opened as asked.
"""

from __future__ import annotations

import pytest

from farsteer.agents.base import Registered
from farsteer.agents.conformance.contract import Conformance, contract, declared, given, if_able
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.core.errors import AgentError, ErrorCode, NotCapable
from farsteer.core.events import AgentMessage, AgentThought


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
        await remember(stage, scene, "apricot")
        again = await stage.again(scene)
        assert "apricot" in await recall(stage, again)
        assert again.launch.native_id == scene.launch.native_id
        third = await stage.again(again)
        assert "apricot" in await recall(stage, third)

    @contract
    async def test_a_rewound_conversation_knows_nothing_after_the_cut(self, stage: Stage) -> None:
        scene = await stage.launch()
        if not stage.adapter.capabilities.rewind:
            await _refused(stage, scene, cut_at="anywhere")
            return
        await remember(stage, scene, "apricot")
        anchor = anchor_of(scene)
        await remember(stage, scene, "walnut")
        again = await stage.again(scene, cut_at=anchor)
        words = await recall(stage, again)
        assert "apricot" in words
        assert "walnut" not in words
        assert "walnut" not in await recall(stage, await stage.again(again)), "the cut is for good"

    @contract
    async def test_a_cut_that_is_asked_for_again_is_the_same_cut(self, stage: Stage) -> None:
        """It is kept until a message after it has arrived, over launches that come to nothing."""
        declared(stage, "rewind")
        scene = await stage.launch()
        await remember(stage, scene, "apricot")
        anchor = anchor_of(scene)
        await remember(stage, scene, "walnut")
        with if_able():
            again = await stage.again(await stage.again(scene, cut_at=anchor), cut_at=anchor)
        words = await recall(stage, again)
        assert "apricot" in words
        assert "walnut" not in words

    @contract
    async def test_the_last_anchor_of_an_answer_keeps_all_of_it(self, stage: Stage) -> None:
        """Thinking comes first and text last; a cut at the thinking loses the text."""
        declared(stage, "rewind")
        scene = await stage.launch()
        await scene.turn(given(stage.script.thinks))
        thought, text = scene.events(AgentThought)[-1], scene.events(AgentMessage)[-1]
        assert text.text not in thought.text, "the script gives a thought that differs from the answer"
        before, last = thought.anchor, anchor_of(scene)
        with if_able():
            again = await stage.again(scene, cut_at=last)
        assert text.text in await _answer(again, given(stage.script.transcript))
        if before in (None, last):
            return
        again = await stage.again(again, cut_at=before)
        assert text.text not in await _answer(again, given(stage.script.transcript))

    @contract
    async def test_the_id_of_a_message_is_its_anchor_where_the_agent_takes_one(self, stage: Stage) -> None:
        declared(stage, "rewind")
        scene = await stage.launch()
        await remember(stage, scene, "apricot")
        await remember(stage, scene, "walnut")
        try:
            with if_able():
                again = await stage.again(scene, cut_at=scene.messages[0])
        except AgentError as error:
            if error.code is not ErrorCode.ANCHOR_UNKNOWN:
                raise
            pytest.skip("the agent names messages itself")
        words = await recall(stage, again)
        assert "apricot" in words
        assert "walnut" not in words

    @contract
    async def test_a_fork_knows_the_past_and_leaves_its_source_alone(self, stage: Stage) -> None:
        scene = await stage.launch()
        if not stage.adapter.capabilities.fork:
            with pytest.raises(NotCapable):
                await stage.launch(stage.plan(fork_of=scene.launch.native_id or scene.plan.session_id))
            return
        await remember(stage, scene, "apricot")
        anchor = anchor_of(scene)
        await remember(stage, scene, "walnut")
        fork = await stage.launch(stage.plan(fork_of=scene.launch.native_id, cut_at=anchor))
        assert fork.launch.native_id != scene.launch.native_id
        await remember(stage, fork, "cherry")
        words = await recall(stage, fork)
        assert "apricot" in words
        assert "walnut" not in words
        source = await recall(stage, await stage.again(scene))
        assert "walnut" in source
        assert "cherry" not in source
        assert "cherry" in await recall(stage, await stage.again(fork)), "a fork is a conversation of its own"


async def remember(stage: Stage, scene: Scene, word: str) -> None:
    await scene.turn(given(stage.script.remember).format(word=word))


async def recall(stage: Stage, scene: Scene) -> str:
    return await _answer(scene, given(stage.script.recall))


async def _answer(scene: Scene, prompt: str) -> str:
    """What it answers, without what it said before."""
    before = len(scene.words())
    await scene.turn(prompt)
    return scene.words()[before:]


def anchor_of(scene: Scene) -> str:
    anchor = scene.events(AgentMessage)[-1].anchor
    assert anchor is not None, "an agent that can rewind names where"
    return anchor


async def _refused(stage: Stage, scene: Scene, cut_at: str | None = None) -> None:
    native_id = scene.launch.native_id or scene.plan.session_id
    with pytest.raises(NotCapable):
        await stage.launch(stage.plan(session_id=scene.plan.session_id, resume=native_id, cut_at=cut_at))
