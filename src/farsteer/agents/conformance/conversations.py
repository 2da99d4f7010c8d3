"""Contracts of a conversation that outlives its process: identity, resume, rewind, fork, restoring files."""

from __future__ import annotations

import pytest

from farsteer.agents.base import LaunchPlan, Registered
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.agents.conformance.suite import (
    ConformanceSuite,
    contract,
    require_capabilities,
    require_prompt,
    skip_if_refused,
)
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError, NotCapable
from farsteer.core.events import AgentMessage, AgentThought, FileRestore
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode


class ConversationContracts(ConformanceSuite):
    """Identity, resume, rewind and fork."""

    @contract
    async def test_the_native_id_is_known_and_registered_with_the_first_turn(self, harness: Harness) -> None:
        agent = await harness.launch()
        if harness.adapter.capabilities.caller_chosen_id:
            assert agent.launch.native_id == agent.plan.session_id
            assert not harness.has_transcript(agent.plan.session_id), (
                "nothing may be stored before the first turn"
            )
        await agent.run_turn(harness.prompts.answer)
        assert agent.launch.native_id is not None
        if harness.adapter.capabilities.resume:
            assert [output.native_id for output in agent.outputs_of(Registered)] == [agent.launch.native_id]
        if harness.adapter.capabilities.caller_chosen_id and harness.adapter.capabilities.resume:
            assert harness.has_transcript(agent.plan.session_id)

    @contract
    async def test_a_resumed_conversation_has_its_context_and_its_id(self, harness: Harness) -> None:
        agent = await harness.launch()
        if not harness.adapter.capabilities.resume:
            await _check_refused(harness, agent)
            return
        await remember(harness, agent, "apricot")
        resumed = await harness.relaunch(agent)
        assert "apricot" in await recall(harness, resumed)
        assert resumed.launch.native_id == agent.launch.native_id
        third = await harness.relaunch(resumed)
        assert "apricot" in await recall(harness, third)

    @contract
    async def test_a_rewound_conversation_knows_nothing_after_the_cut(self, harness: Harness) -> None:
        agent = await harness.launch()
        if not harness.adapter.capabilities.rewind:
            await _check_refused(harness, agent, cut_at="anywhere")
            return
        await remember(harness, agent, "apricot")
        anchor = last_anchor(agent)
        await remember(harness, agent, "walnut")
        resumed = await harness.relaunch(agent, cut_at=anchor)
        text = await recall(harness, resumed)
        assert "apricot" in text
        assert "walnut" not in text
        assert "walnut" not in await recall(harness, await harness.relaunch(resumed)), (
            "a cut must be permanent"
        )

    @contract
    async def test_a_cut_can_be_repeated(self, harness: Harness) -> None:
        """The runner repeats a cut until the agent has accepted a message after it."""
        require_capabilities(harness, "rewind")
        agent = await harness.launch()
        await remember(harness, agent, "apricot")
        anchor = last_anchor(agent)
        await remember(harness, agent, "walnut")
        with skip_if_refused():
            resumed = await harness.relaunch(await harness.relaunch(agent, cut_at=anchor), cut_at=anchor)
        text = await recall(harness, resumed)
        assert "apricot" in text
        assert "walnut" not in text

    @contract
    async def test_the_last_anchor_of_an_answer_keeps_all_of_it(self, harness: Harness) -> None:
        """A thought comes before its message, so a cut at the thought loses the message."""
        require_capabilities(harness, "rewind")
        agent = await harness.launch()
        await agent.run_turn(require_prompt(harness.prompts.thinks))
        thought, message = agent.events_of(AgentThought)[-1], agent.events_of(AgentMessage)[-1]
        assert message.text not in thought.text, (
            "the prompt `thinks` must give a thought that differs from the answer"
        )
        before, last = thought.anchor, last_anchor(agent)
        with skip_if_refused():
            resumed = await harness.relaunch(agent, cut_at=last)
        assert message.text in await _ask(resumed, require_prompt(harness.prompts.transcript))
        if before in (None, last):
            return
        resumed = await harness.relaunch(resumed, cut_at=before)
        assert message.text not in await _ask(resumed, require_prompt(harness.prompts.transcript))

    @contract
    async def test_a_message_id_is_an_anchor_if_the_agent_accepts_it(self, harness: Harness) -> None:
        require_capabilities(harness, "rewind")
        agent = await harness.launch()
        await remember(harness, agent, "apricot")
        await remember(harness, agent, "walnut")
        try:
            with skip_if_refused():
                resumed = await harness.relaunch(agent, cut_at=agent.message_ids[0])
        except AgentError as error:
            if error.code is not ErrorCode.ANCHOR_UNKNOWN:
                raise
            pytest.skip("the agent chooses the ids of messages itself")
        text = await recall(harness, resumed)
        assert "apricot" in text
        assert "walnut" not in text

    @contract
    async def test_a_fork_has_the_history_and_leaves_its_source_unchanged(self, harness: Harness) -> None:
        agent = await harness.launch()
        if not harness.adapter.capabilities.fork:
            with pytest.raises(NotCapable):
                await harness.launch(harness.plan(fork_of=agent.launch.native_id or agent.plan.session_id))
            return
        await remember(harness, agent, "apricot")
        # An agent that cannot rewind has no anchors, and forks whole conversations.
        anchor = last_anchor(agent) if harness.adapter.capabilities.rewind else None
        await remember(harness, agent, "walnut")
        fork = await harness.launch(harness.plan(fork_of=agent.launch.native_id, cut_at=anchor))
        assert fork.launch.native_id != agent.launch.native_id
        await remember(harness, fork, "cherry")
        text = await recall(harness, fork)
        assert "apricot" in text
        assert ("walnut" in text) == (anchor is None)
        source = await recall(harness, await harness.relaunch(agent))
        assert "walnut" in source
        assert "cherry" not in source
        assert "cherry" in await recall(harness, await harness.relaunch(fork)), (
            "a fork must be its own conversation"
        )


class RecoveryContracts(ConformanceSuite):
    """A start that cannot be done as asked fails with the right code and changes nothing."""

    @contract
    async def test_resuming_a_missing_conversation_fails(self, harness: Harness) -> None:
        plan = harness.plan(resume=new_id())
        if harness.adapter.capabilities.resume:
            await _check_start_fails(harness, plan, ErrorCode.CONVERSATION_MISSING)
        else:
            with pytest.raises(NotCapable):
                await harness.launch(plan)

    @contract
    async def test_creating_an_existing_conversation_fails(self, harness: Harness) -> None:
        require_capabilities(harness, "caller_chosen_id", "resume")
        agent = await harness.launch()
        await remember(harness, agent, "apricot")
        await agent.launch.stop()
        plan = harness.plan(session_id=agent.plan.session_id)
        await _check_start_fails(harness, plan, ErrorCode.CONVERSATION_IN_USE)
        assert "apricot" in await recall(harness, await harness.relaunch(agent))

    @contract
    async def test_a_cut_at_an_unknown_anchor_fails_and_cuts_nothing(self, harness: Harness) -> None:
        require_capabilities(harness, "resume", "rewind")
        agent = await harness.launch()
        await remember(harness, agent, "apricot")
        await agent.launch.stop()
        plan = harness.plan(
            session_id=agent.plan.session_id, resume=agent.launch.native_id, cut_at=f"nowhere-{new_id()}"
        )
        await _check_start_fails(harness, plan, ErrorCode.ANCHOR_UNKNOWN)
        assert "apricot" in await recall(harness, await harness.relaunch(agent))

    @contract
    async def test_a_fork_of_a_missing_conversation_fails(self, harness: Harness) -> None:
        require_capabilities(harness, "fork")
        plan = harness.plan(fork_of=new_id())
        await _check_start_fails(harness, plan, ErrorCode.CONVERSATION_MISSING)
        agent = await harness.launch(harness.plan(session_id=plan.session_id))
        await agent.run_turn(harness.prompts.answer)

    @contract
    async def test_a_fork_at_an_unknown_anchor_fails_and_creates_nothing(self, harness: Harness) -> None:
        require_capabilities(harness, "fork")
        agent = await harness.launch()
        await remember(harness, agent, "apricot")
        source = agent.launch.native_id
        plan = harness.plan(fork_of=source, cut_at=f"nowhere-{new_id()}")
        await _check_start_fails(harness, plan, ErrorCode.ANCHOR_UNKNOWN)
        with skip_if_refused():
            fork = await harness.launch(harness.plan(session_id=plan.session_id, fork_of=source))
        assert "apricot" in await recall(harness, fork)


class FileContracts(ConformanceSuite):
    """`Launch.restore_files`."""

    @contract
    async def test_a_file_created_after_a_message_is_removed_or_restoring_is_refused(
        self, harness: Harness
    ) -> None:
        agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
        if not harness.adapter.capabilities.file_restore:
            with pytest.raises(NotCapable):
                await agent.launch.restore_files(new_id(), None)
            return
        await agent.run_turn(harness.prompts.answer)
        after = agent.events_of(AgentMessage)[-1].anchor
        await agent.run_turn(require_prompt(harness.prompts.tool))
        path = harness.directory / harness.prompts.tool_file
        assert path.exists()
        found = await agent.launch.restore_files(agent.message_ids[-1], after)
        assert (found.status, found.skipped) == (FileRestore.FULL, ())
        assert found.restored, "restored files must be listed"
        assert not path.exists()
        assert (await agent.launch.restore_files(agent.message_ids[-1], after)).status is FileRestore.FULL

    @contract
    async def test_a_file_is_restored_to_each_message_also_after_a_restart(self, harness: Harness) -> None:
        require_capabilities(harness, "file_restore", "resume")
        overwrite = require_prompt(harness.prompts.overwrite)
        agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
        path = harness.directory / harness.prompts.tool_file
        anchors: list[str | None] = [None]
        for text in ("first", "second", "third"):
            await agent.run_turn(overwrite.format(text=text))
            anchors.append(agent.events_of(AgentMessage)[-1].anchor)
        resumed = await harness.relaunch(agent, mode=PermissionMode.YOLO)
        await resumed.launch.restore_files(agent.message_ids[2], anchors[2])
        assert "second" in path.read_text()
        await resumed.launch.restore_files(agent.message_ids[1], anchors[1])
        assert "first" in path.read_text()
        await resumed.launch.restore_files(agent.message_ids[0], anchors[0])
        assert not path.exists()

    @contract
    async def test_restoring_to_an_unknown_message_changes_no_file(self, harness: Harness) -> None:
        require_capabilities(harness, "file_restore")
        agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
        await agent.run_turn(require_prompt(harness.prompts.tool))
        try:
            found = await agent.launch.restore_files(new_id(), f"nowhere-{new_id()}")
        except FarsteerError:
            pass
        else:
            assert found.status is FileRestore.FAILED
            assert found.reason
        assert (harness.directory / harness.prompts.tool_file).exists()


async def remember(harness: Harness, agent: RecordedLaunch, word: str) -> None:
    await agent.run_turn(require_prompt(harness.prompts.remember).format(word=word))


async def recall(harness: Harness, agent: RecordedLaunch) -> str:
    return await _ask(agent, require_prompt(harness.prompts.recall))


async def _ask(agent: RecordedLaunch, prompt: str) -> str:
    """Run a turn and return the text it added."""
    before = len(agent.text())
    await agent.run_turn(prompt)
    return agent.text()[before:]


def last_anchor(agent: RecordedLaunch) -> str:
    anchor = agent.events_of(AgentMessage)[-1].anchor
    assert anchor is not None, "an agent that can rewind must set the anchor of a message"
    return anchor


async def _check_refused(harness: Harness, agent: RecordedLaunch, cut_at: str | None = None) -> None:
    native_id = agent.launch.native_id or agent.plan.session_id
    with pytest.raises(NotCapable):
        await harness.launch(harness.plan(session_id=agent.plan.session_id, resume=native_id, cut_at=cut_at))


async def _check_start_fails(harness: Harness, plan: LaunchPlan, code: ErrorCode) -> None:
    before = set(harness.leftover_processes())
    with skip_if_refused(), pytest.raises(AgentError) as caught:
        await harness.launch(plan)
    assert caught.value.code is code, caught.value.message
    assert set(harness.leftover_processes()) <= before, "a failed start must leave no process"
