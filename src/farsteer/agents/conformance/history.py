"""Contracts of stored conversations: listed, read as events, resumed, deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farsteer.agents.conformance.conversations import recall, remember
from farsteer.agents.conformance.harness import Harness
from farsteer.agents.conformance.suite import ConformanceSuite, contract, require_capabilities, require_prompt
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError, NotCapable
from farsteer.core.events import AgentMessage, AgentThought, UserMessage
from farsteer.core.ids import new_id
from farsteer.core.session import StoredConversation


class HistoryContracts(ConformanceSuite):
    @contract
    async def test_stored_conversations_are_listed_newest_first_or_listing_is_refused(
        self, harness: Harness
    ) -> None:
        if not harness.adapter.capabilities.import_history:
            with pytest.raises(NotCapable):
                await harness.adapter.list_conversations(harness.state_dir, None, 10)
            with pytest.raises(NotCapable):
                await harness.adapter.read_history(new_id(), harness.state_dir)
            return
        elsewhere = harness.directory.with_name("elsewhere")
        elsewhere.mkdir()
        first = await _store_conversation(harness, "apricot")
        second = await _store_conversation(harness, "walnut", elsewhere)
        listed = await harness.adapter.list_conversations(harness.state_dir, None, 1000)
        ids = [one.native_id for one in listed]
        assert ids.index(second) < ids.index(first)
        known = {one.native_id: one for one in listed}
        assert known[first].title, "a stored conversation must have a title"
        assert {one.agent for one in listed} == {harness.adapter.name}
        assert _is_in(known[second], elsewhere)
        assert (await harness.adapter.list_conversations(harness.state_dir, None, 1))[0].native_id == second
        there = await harness.adapter.list_conversations(harness.state_dir, str(harness.directory), 1000)
        assert first in [one.native_id for one in there]
        assert second not in [one.native_id for one in there], (
            "conversations of other directories must not be listed"
        )

    @contract
    async def test_a_stored_conversation_is_read_as_events(self, harness: Harness) -> None:
        require_capabilities(harness, "import_history")
        agent = await harness.launch()
        await remember(harness, agent, "apricot")
        await remember(harness, agent, "walnut")
        await agent.launch.stop()
        assert agent.launch.native_id is not None
        conversation, events = await harness.adapter.read_history(agent.launch.native_id, harness.state_dir)
        assert conversation.native_id == agent.launch.native_id
        assert _is_in(conversation, harness.directory)
        asked = [event for event in events if isinstance(event, UserMessage)]
        assert [word for event in asked for word in ("apricot", "walnut") if word in event.text] == [
            "apricot", "walnut",
        ]  # fmt: skip
        sent = [event for event in events if isinstance(event, AgentMessage)]
        assert [event.text for event in sent] == [event.text for event in agent.events_of(AgentMessage)]
        assert (
            events.index(asked[0]) < events.index(sent[0]) < events.index(asked[1]) < events.index(sent[-1])
        )
        ids = [event.item_id for event in asked]
        ids += [event.message_id for event in events if isinstance(event, AgentMessage | AgentThought)]
        assert len(ids) == len(set(ids)), "ids must be unique"
        if harness.adapter.capabilities.rewind:
            assert sent[-1].anchor is not None, "a stored message must have an anchor"

    @contract
    async def test_a_stored_conversation_is_resumed_under_its_own_id(self, harness: Harness) -> None:
        require_capabilities(harness, "import_history", "resume")
        native_id = await _store_conversation(harness, "apricot")
        _, before = await harness.adapter.read_history(native_id, harness.state_dir)
        # As an adopted conversation: another session id, and generations from 1.
        adopted = await harness.launch(harness.plan(resume=native_id))
        assert adopted.launch.native_id == native_id
        assert "apricot" in await recall(harness, adopted)
        await adopted.launch.stop()
        _, after = await harness.adapter.read_history(native_id, harness.state_dir)
        assert after[: len(before)] == before, "resuming must not change ids and anchors"
        assert len(after) > len(before)

    @contract
    async def test_a_missing_conversation_cannot_be_read(self, harness: Harness) -> None:
        require_capabilities(harness, "import_history")
        with pytest.raises(AgentError) as caught:
            await harness.adapter.read_history(new_id(), harness.state_dir)
        assert caught.value.code is ErrorCode.CONVERSATION_MISSING

    @contract
    async def test_an_id_that_is_a_path_is_refused(self, harness: Harness) -> None:
        require_capabilities(harness, "import_history")
        victim = harness.directory / "victim.jsonl"
        victim.write_text("{}\n")
        for name in (f"../{harness.directory.name}/victim", str(victim.with_suffix("")), "..", ""):
            with pytest.raises(FarsteerError):
                await harness.adapter.read_history(name, harness.state_dir)
            with pytest.raises(FarsteerError):
                await harness.adapter.delete_conversation(name, harness.state_dir)
        assert victim.exists()

    @contract
    async def test_discard_deletes_one_conversation(self, harness: Harness) -> None:
        require_capabilities(harness, "import_history")
        gone, kept = (
            await _store_conversation(harness, "apricot"),
            await _store_conversation(harness, "walnut"),
        )
        await harness.adapter.delete_conversation(gone, harness.state_dir)
        await harness.adapter.delete_conversation(gone, harness.state_dir)
        listed = [
            one.native_id for one in await harness.adapter.list_conversations(harness.state_dir, None, 1000)
        ]
        assert gone not in listed
        assert kept in listed
        assert not harness.has_transcript(gone)
        with pytest.raises(AgentError):
            await harness.adapter.read_history(gone, harness.state_dir)


async def _store_conversation(harness: Harness, word: str, directory: Path | None = None) -> str:
    """Store a conversation about `word`. Returns its native id."""
    require_prompt(harness.prompts.remember)
    agent = await harness.launch(harness.plan(directory=directory))
    await remember(harness, agent, word)
    await agent.launch.stop()
    assert agent.launch.native_id is not None
    return agent.launch.native_id


def _is_in(conversation: StoredConversation, directory: Path) -> bool:
    return os.path.realpath(conversation.directory) == os.path.realpath(directory)
