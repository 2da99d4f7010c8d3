"""Files as they were when a message was sent, of a simulated Droid that keeps copies as the real one does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.agents.droid import store
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.core.errors import AgentError, Conflict, ErrorCode
from farsteer.core.events import AgentMessage, FileRestore
from farsteer.core.modes import PermissionMode
from tests.agents.droid.test_simulator_conformance import Simulated
from tests.support.droid_simulator import install


@pytest.fixture
async def harness(home: Path, tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(DroidAdapter(install(tmp_path, "0.215")), Simulated.prompts, tmp_path, 10.0)
    yield harness
    await harness.close()


async def opened(harness: Harness, **plan: str | None) -> RecordedLaunch:
    return await harness.launch(harness.plan(mode=PermissionMode.YOLO, **plan))  # pyright: ignore[reportArgumentType]


async def told(agent: RecordedLaunch, *texts: str) -> list[str | None]:
    """Say these; the anchor after each."""
    anchors: list[str | None] = []
    for text in texts:
        await agent.run_turn(text)
        anchors.append(agent.events_of(AgentMessage)[-1].anchor)
    return anchors


async def test_a_message_that_changed_nothing_takes_back_what_came_after_it(harness: Harness) -> None:
    (harness.directory / "old.txt").write_text("before")
    agent = await opened(harness)
    await told(agent, "say one", "say two", "write old.txt after", "write new.txt x")
    found = await agent.launch.restore_files(agent.message_ids[1], None)
    assert (found.status, found.reason, found.skipped) == (FileRestore.FULL, None, ())
    assert found.restored == (str(harness.directory / "new.txt"), str(harness.directory / "old.txt"))
    assert [(path.name, path.read_text()) for path in harness.directory.iterdir()] == [("old.txt", "before")]
    assert (await agent.run_turn("say still there")).error is None
    assert len(store.conversations(Path.home(), None, 10)) == 1, "no copy of the conversation is left"


async def test_copies_of_the_source_count_in_what_was_cut_from_it(harness: Harness) -> None:
    """Droid itself forgets them with every rewind and every fork."""
    path = harness.directory / "file.txt"
    agent = await opened(harness)
    anchors = await told(agent, "say one", "write file.txt 1", "write file.txt 2", "write file.txt 3")
    await agent.launch.stop()
    cut = await opened(harness, resume=agent.launch.native_id, cut_at=anchors[2])
    await told(cut, "write file.txt 4")
    await cut.launch.stop()
    again = await opened(harness, resume=cut.launch.native_id, cut_at=anchors[2])
    assert (await again.launch.restore_files(agent.message_ids[2], anchors[1])).status is FileRestore.FULL
    assert path.read_text() == "1"
    await again.launch.restore_files(agent.message_ids[1], anchors[0])
    assert not path.exists()


async def test_what_the_source_did_after_a_fork_is_not_the_forks_to_undo(harness: Harness) -> None:
    agent = await opened(harness)
    await told(agent, "write ours.txt 1")
    fork = await opened(harness, fork_of=agent.launch.native_id)
    await told(agent, "write theirs.txt 2")
    found = await fork.launch.restore_files(agent.message_ids[0], None)
    assert found.restored == (str(harness.directory / "ours.txt"),)
    assert (harness.directory / "theirs.txt").read_text() == "2"


async def test_a_file_of_which_the_copy_is_gone_is_named(harness: Harness) -> None:
    for name in ("a.txt", "b.txt"):
        (harness.directory / name).write_text(name)
    agent = await opened(harness)
    await told(agent, "write a.txt x", "write b.txt y")
    for copy in Path.home().glob(".factory/snapshots/content/*/*"):
        if copy.read_text() == "a.txt":
            copy.unlink()
    found = await agent.launch.restore_files(agent.message_ids[0], None)
    assert (found.status, found.restored) == (FileRestore.PARTIAL, (str(harness.directory / "b.txt"),))
    assert found.skipped == (str(harness.directory / "a.txt"),)
    assert "no longer has a copy" in str(found.reason)
    for copy in Path.home().glob(".factory/snapshots/content/*/*"):
        copy.unlink()
    await told(agent, "say more")
    (harness.directory / "b.txt").write_text("y")
    assert (await agent.launch.restore_files(agent.message_ids[0], None)).status is FileRestore.FAILED


async def test_that_commands_ran_is_said(harness: Harness) -> None:
    agent = await opened(harness)
    await told(agent, "run touch made.txt")
    found = await agent.launch.restore_files(agent.message_ids[0], None)
    assert (found.status, found.restored) == (FileRestore.FULL, ())
    assert "commands" in str(found.reason)


async def test_files_stay_while_a_turn_runs_and_where_the_place_is_unknown(harness: Harness) -> None:
    agent = await opened(harness)
    await told(agent, "write made.txt x")
    with pytest.raises(AgentError) as caught:
        await agent.launch.restore_files("nothing", "nowhere")
    assert caught.value.code is ErrorCode.ANCHOR_UNKNOWN
    await agent.send_and_wait("work")
    with pytest.raises(Conflict):
        await agent.launch.restore_files(agent.message_ids[0], None)
    assert (harness.directory / "made.txt").exists()
