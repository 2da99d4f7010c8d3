"""Files as they were when a message was sent, of a simulated Droid that keeps copies as the real one does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.agents.droid import store
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.core.errors import AgentError, Conflict, ErrorCode
from farsteer.core.events import AgentMessage, FileRestore
from farsteer.core.modes import PermissionMode
from tests.agents.droid.test_simulator_conformance import Simulated
from tests.support.droid_simulator import install


@pytest.fixture
async def stage(home: Path, tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(DroidAdapter(install(tmp_path, "0.215")), Simulated.script, tmp_path, 10.0)
    yield stage
    await stage.close()


async def opened(stage: Stage, **plan: str | None) -> Scene:
    return await stage.launch(stage.plan(mode=PermissionMode.YOLO, **plan))  # pyright: ignore[reportArgumentType]


async def told(scene: Scene, *texts: str) -> list[str | None]:
    """Say these; the anchor after each."""
    anchors: list[str | None] = []
    for text in texts:
        await scene.turn(text)
        anchors.append(scene.events(AgentMessage)[-1].anchor)
    return anchors


async def test_a_message_that_changed_nothing_takes_back_what_came_after_it(stage: Stage) -> None:
    (stage.directory / "old.txt").write_text("before")
    scene = await opened(stage)
    await told(scene, "say one", "say two", "write old.txt after", "write new.txt x")
    found = await scene.launch.restore_files(scene.messages[1], None)
    assert (found.status, found.reason, found.skipped) == (FileRestore.FULL, None, ())
    assert found.restored == (str(stage.directory / "new.txt"), str(stage.directory / "old.txt"))
    assert [(path.name, path.read_text()) for path in stage.directory.iterdir()] == [("old.txt", "before")]
    assert (await scene.turn("say still there")).error is None
    assert len(store.conversations(Path.home(), None, 10)) == 1, "no copy of the conversation is left"


async def test_copies_of_the_source_count_in_what_was_cut_from_it(stage: Stage) -> None:
    """Droid itself forgets them with every rewind and every fork."""
    path = stage.directory / "file.txt"
    scene = await opened(stage)
    anchors = await told(scene, "say one", "write file.txt 1", "write file.txt 2", "write file.txt 3")
    await scene.launch.stop()
    cut = await opened(stage, resume=scene.launch.native_id, cut_at=anchors[2])
    await told(cut, "write file.txt 4")
    await cut.launch.stop()
    again = await opened(stage, resume=cut.launch.native_id, cut_at=anchors[2])
    assert (await again.launch.restore_files(scene.messages[2], anchors[1])).status is FileRestore.FULL
    assert path.read_text() == "1"
    await again.launch.restore_files(scene.messages[1], anchors[0])
    assert not path.exists()


async def test_what_the_source_did_after_a_fork_is_not_the_forks_to_undo(stage: Stage) -> None:
    scene = await opened(stage)
    await told(scene, "write ours.txt 1")
    fork = await opened(stage, fork_of=scene.launch.native_id)
    await told(scene, "write theirs.txt 2")
    found = await fork.launch.restore_files(scene.messages[0], None)
    assert found.restored == (str(stage.directory / "ours.txt"),)
    assert (stage.directory / "theirs.txt").read_text() == "2"


async def test_a_file_of_which_the_copy_is_gone_is_named(stage: Stage) -> None:
    for name in ("a.txt", "b.txt"):
        (stage.directory / name).write_text(name)
    scene = await opened(stage)
    await told(scene, "write a.txt x", "write b.txt y")
    for copy in Path.home().glob(".factory/snapshots/content/*/*"):
        if copy.read_text() == "a.txt":
            copy.unlink()
    found = await scene.launch.restore_files(scene.messages[0], None)
    assert (found.status, found.restored) == (FileRestore.PARTIAL, (str(stage.directory / "b.txt"),))
    assert found.skipped == (str(stage.directory / "a.txt"),)
    assert "no longer has a copy" in str(found.reason)
    for copy in Path.home().glob(".factory/snapshots/content/*/*"):
        copy.unlink()
    await told(scene, "say more")
    (stage.directory / "b.txt").write_text("y")
    assert (await scene.launch.restore_files(scene.messages[0], None)).status is FileRestore.FAILED


async def test_that_commands_ran_is_said(stage: Stage) -> None:
    scene = await opened(stage)
    await told(scene, "run touch made.txt")
    found = await scene.launch.restore_files(scene.messages[0], None)
    assert (found.status, found.restored) == (FileRestore.FULL, ())
    assert "commands" in str(found.reason)


async def test_files_stay_while_a_turn_runs_and_where_the_place_is_unknown(stage: Stage) -> None:
    scene = await opened(stage)
    await told(scene, "write made.txt x")
    with pytest.raises(AgentError) as caught:
        await scene.launch.restore_files("nothing", "nowhere")
    assert caught.value.code is ErrorCode.ANCHOR_UNKNOWN
    await scene.working("work")
    with pytest.raises(Conflict):
        await scene.launch.restore_files(scene.messages[0], None)
    assert (stage.directory / "made.txt").exists()
