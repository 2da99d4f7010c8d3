"""Contracts of what an agent has stored: listed, read in our words, gone on with, deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farsteer.agents.conformance.contract import Conformance, contract, declared, given
from farsteer.agents.conformance.memory import recall, remember
from farsteer.agents.conformance.stage import Stage
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError, NotCapable
from farsteer.core.events import AgentMessage, AgentThought, UserMessage
from farsteer.core.ids import new_id
from farsteer.core.session import StoredConversation


class StoreContracts(Conformance):
    @contract
    async def test_what_is_stored_is_listed_newest_first_or_that_is_refused(self, stage: Stage) -> None:
        if not stage.adapter.capabilities.import_history:
            with pytest.raises(NotCapable):
                await stage.adapter.conversations(stage.state_dir, None, 10)
            with pytest.raises(NotCapable):
                await stage.adapter.history(new_id(), stage.state_dir)
            return
        elsewhere = stage.directory.with_name("elsewhere")
        elsewhere.mkdir()
        first = await _told(stage, "apricot")
        second = await _told(stage, "walnut", elsewhere)
        listed = await stage.adapter.conversations(stage.state_dir, None, 1000)
        ids = [one.native_id for one in listed]
        assert ids.index(second) < ids.index(first)
        known = {one.native_id: one for one in listed}
        assert known[first].title, "it has a title, of its own or by its first message"
        assert {one.agent for one in listed} == {stage.adapter.name}
        assert _same(known[second], elsewhere)
        assert (await stage.adapter.conversations(stage.state_dir, None, 1))[0].native_id == second
        there = await stage.adapter.conversations(stage.state_dir, str(stage.directory), 1000)
        assert first in [one.native_id for one in there]
        assert second not in [one.native_id for one in there], "it took place in another directory"

    @contract
    async def test_a_stored_conversation_is_read_in_our_words(self, stage: Stage) -> None:
        declared(stage, "import_history")
        scene = await stage.launch()
        await remember(stage, scene, "apricot")
        await remember(stage, scene, "walnut")
        await scene.launch.stop()
        assert scene.launch.native_id is not None
        conversation, events = await stage.adapter.history(scene.launch.native_id, stage.state_dir)
        assert conversation.native_id == scene.launch.native_id
        assert _same(conversation, stage.directory)
        asked = [event for event in events if isinstance(event, UserMessage)]
        assert [word for event in asked for word in ("apricot", "walnut") if word in event.text] == [
            "apricot", "walnut",
        ]  # fmt: skip
        said = [event for event in events if isinstance(event, AgentMessage)]
        assert [event.text for event in said] == [event.text for event in scene.events(AgentMessage)]
        assert (
            events.index(asked[0]) < events.index(said[0]) < events.index(asked[1]) < events.index(said[-1])
        )
        ids = [event.item_id for event in asked]
        ids += [event.message_id for event in events if isinstance(event, AgentMessage | AgentThought)]
        assert len(ids) == len(set(ids)), "each has an id of its own"
        if stage.adapter.capabilities.rewind:
            assert said[-1].anchor is not None, "one can go back in it"

    @contract
    async def test_a_stored_conversation_goes_on_under_its_own_id(self, stage: Stage) -> None:
        declared(stage, "import_history", "resume")
        native_id = await _told(stage, "apricot")
        _, before = await stage.adapter.history(native_id, stage.state_dir)
        # As a session that was never ours: another id, and launches counted from one.
        adopted = await stage.launch(stage.plan(resume=native_id))
        assert adopted.launch.native_id == native_id
        assert "apricot" in await recall(stage, adopted)
        await adopted.launch.stop()
        _, after = await stage.adapter.history(native_id, stage.state_dir)
        assert after[: len(before)] == before, "what was said keeps its ids and its anchors"
        assert len(after) > len(before)

    @contract
    async def test_a_conversation_that_is_gone_cannot_be_read(self, stage: Stage) -> None:
        declared(stage, "import_history")
        with pytest.raises(AgentError) as caught:
            await stage.adapter.history(new_id(), stage.state_dir)
        assert caught.value.code is ErrorCode.CONVERSATION_MISSING

    @contract
    async def test_an_id_that_is_a_path_is_refused(self, stage: Stage) -> None:
        declared(stage, "import_history")
        victim = stage.directory / "victim.jsonl"
        victim.write_text("{}\n")
        for name in (f"../{stage.directory.name}/victim", str(victim.with_suffix("")), "..", ""):
            with pytest.raises(FarsteerError):
                await stage.adapter.history(name, stage.state_dir)
            with pytest.raises(FarsteerError):
                await stage.adapter.discard(name, stage.state_dir)
        assert victim.exists()

    @contract
    async def test_a_discarded_conversation_is_gone_and_no_other_is(self, stage: Stage) -> None:
        declared(stage, "import_history")
        gone, kept = await _told(stage, "apricot"), await _told(stage, "walnut")
        await stage.adapter.discard(gone, stage.state_dir)
        await stage.adapter.discard(gone, stage.state_dir)
        listed = [one.native_id for one in await stage.adapter.conversations(stage.state_dir, None, 1000)]
        assert gone not in listed
        assert kept in listed
        assert not stage.has_transcript(gone)
        with pytest.raises(AgentError):
            await stage.adapter.history(gone, stage.state_dir)


async def _told(stage: Stage, word: str, directory: Path | None = None) -> str:
    """A conversation about `word` whose process has ended."""
    given(stage.script.remember)
    scene = await stage.launch(stage.plan(directory=directory))
    await remember(stage, scene, word)
    await scene.launch.stop()
    assert scene.launch.native_id is not None
    return scene.launch.native_id


def _same(conversation: StoredConversation, directory: Path) -> bool:
    return os.path.realpath(conversation.directory) == os.path.realpath(directory)
