"""Files are restored to what they were when a message was sent, with a simulated Droid that keeps copies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.agents.droid import transcripts
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.core.errors import AgentError, Conflict, ErrorCode
from farsteer.core.events import AgentMessage, FileRestore
from farsteer.core.modes import PermissionMode
from tests.agents.droid.test_conformance import Simulated
from tests.support.droid_simulator import install

pytestmark = pytest.mark.slow


@pytest.fixture
async def harness(home: Path, tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(DroidAdapter(install(tmp_path, "0.215")), Simulated.prompts, tmp_path, 10.0)
    yield harness
    await harness.close()


async def launch(harness: Harness, **plan: str | None) -> RecordedLaunch:
    return await harness.launch(harness.plan(mode=PermissionMode.YOLO, **plan))  # pyright: ignore[reportArgumentType]


async def run_turns(agent: RecordedLaunch, *texts: str) -> list[str | None]:
    """Run a turn for each text; return the anchor after each."""
    anchors: list[str | None] = []
    for text in texts:
        await agent.run_turn(text)
        anchors.append(agent.events_of(AgentMessage)[-1].anchor)
    return anchors


async def test_restoring_before_a_message_that_changed_nothing_restores_later_changes(
    harness: Harness,
) -> None:
    (harness.directory / "old.txt").write_text("before")
    agent = await launch(harness)
    await run_turns(agent, "say one", "say two", "write old.txt after", "write new.txt x")
    found = await agent.launch.restore_files(agent.message_ids[1], None)
    assert (found.status, found.reason, found.skipped) == (FileRestore.FULL, None, ())
    assert found.restored == (str(harness.directory / "new.txt"), str(harness.directory / "old.txt"))
    assert [(path.name, path.read_text()) for path in harness.directory.iterdir()] == [("old.txt", "before")]
    assert (await agent.run_turn("say still there")).error is None
    assert len(transcripts.list_conversations(Path.home(), None, 10)) == 1, (
        "no copy of the conversation is left"
    )


async def test_copies_of_the_source_are_used_after_a_cut(harness: Harness) -> None:
    """Droid itself does not use them after a rewind or a fork."""
    path = harness.directory / "file.txt"
    agent = await launch(harness)
    anchors = await run_turns(agent, "say one", "write file.txt 1", "write file.txt 2", "write file.txt 3")
    await agent.launch.stop()
    cut = await launch(harness, resume=agent.launch.native_id, cut_at=anchors[2])
    await run_turns(cut, "write file.txt 4")
    await cut.launch.stop()
    again = await launch(harness, resume=cut.launch.native_id, cut_at=anchors[2])
    assert (await again.launch.restore_files(agent.message_ids[2], anchors[1])).status is FileRestore.FULL
    assert path.read_text() == "1"
    await again.launch.restore_files(agent.message_ids[1], anchors[0])
    assert not path.exists()


async def test_a_fork_does_not_restore_what_its_source_changed_later(harness: Harness) -> None:
    agent = await launch(harness)
    await run_turns(agent, "write ours.txt 1")
    fork = await launch(harness, fork_of=agent.launch.native_id)
    await run_turns(agent, "write theirs.txt 2")
    found = await fork.launch.restore_files(agent.message_ids[0], None)
    assert found.restored == (str(harness.directory / "ours.txt"),)
    assert (harness.directory / "theirs.txt").read_text() == "2"


async def test_a_file_without_a_copy_is_reported_as_skipped(harness: Harness) -> None:
    for name in ("a.txt", "b.txt"):
        (harness.directory / name).write_text(name)
    agent = await launch(harness)
    await run_turns(agent, "write a.txt x", "write b.txt y")
    for copy in Path.home().glob(".factory/snapshots/content/*/*"):
        if copy.read_text() == "a.txt":
            copy.unlink()
    found = await agent.launch.restore_files(agent.message_ids[0], None)
    assert (found.status, found.restored) == (FileRestore.PARTIAL, (str(harness.directory / "b.txt"),))
    assert found.skipped == (str(harness.directory / "a.txt"),)
    assert "no longer has a copy" in str(found.reason)
    for copy in Path.home().glob(".factory/snapshots/content/*/*"):
        copy.unlink()
    await run_turns(agent, "say more")
    (harness.directory / "b.txt").write_text("y")
    assert (await agent.launch.restore_files(agent.message_ids[0], None)).status is FileRestore.FAILED


async def test_the_report_mentions_commands(harness: Harness) -> None:
    agent = await launch(harness)
    await run_turns(agent, "run touch made.txt")
    found = await agent.launch.restore_files(agent.message_ids[0], None)
    assert (found.status, found.restored) == (FileRestore.FULL, ())
    assert "commands" in str(found.reason)


async def test_a_running_turn_or_an_unknown_anchor_restores_nothing(harness: Harness) -> None:
    agent = await launch(harness)
    await run_turns(agent, "write made.txt x")
    with pytest.raises(AgentError) as caught:
        await agent.launch.restore_files("nothing", "nowhere")
    assert caught.value.code is ErrorCode.ANCHOR_UNKNOWN
    await agent.send_and_wait("work")
    with pytest.raises(Conflict):
        await agent.launch.restore_files(agent.message_ids[0], None)
    assert (harness.directory / "made.txt").exists()
