"""The real Droid restores the files that its tools changed."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance.harness import Harness
from farsteer.core.events import AgentMessage, FileRestore
from farsteer.core.modes import PermissionMode
from tests.vendor.droid.conftest import model_history, only_new

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


@only_new
async def test_files_are_restored_twice_although_a_rewind_loses_the_copies(harness: Harness) -> None:
    """Restores files and then cuts in a new launch, as the runner does."""
    path, other = harness.directory / "file.txt", harness.directory / "other.txt"
    other.write_text("before")
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    anchors: list[str | None] = [None]
    edit = f'{{"file_path":"{other}","old_str":"before","new_str":"after"}}'
    for text in ("apricot", f"[[write:{path}:1]]", "walnut", f"[[tool:Edit:{edit}]]", f"[[write:{path}:2]]"):
        await agent.run_turn(text)
        anchors.append(agent.events_of(AgentMessage)[-1].anchor)
    found = await agent.launch.restore_files(agent.message_ids[4], anchors[4])
    assert (found.status, found.restored) == (FileRestore.FULL, (str(path),))
    assert (path.read_text().strip(), other.read_text()) == ("1", "after")
    await agent.launch.stop()
    plan = harness.plan(resume=agent.launch.native_id, cut_at=anchors[4], mode=PermissionMode.YOLO)
    again = await harness.launch(plan)
    assert again.launch.native_id != agent.launch.native_id
    # The message itself changed nothing; what came after it is restored.
    found = await again.launch.restore_files(agent.message_ids[2], anchors[2])
    assert (found.status, found.restored) == (FileRestore.FULL, (str(other),))
    assert (path.read_text().strip(), other.read_text()) == ("1", "before")
    await again.launch.restore_files(agent.message_ids[0], None)
    assert not path.exists()
    await again.launch.stop()
    last = await harness.launch(harness.plan(resume=again.launch.native_id, cut_at=anchors[1]))
    # Once Droid's own copy had the two first messages the other way round.
    heads = [head for _, head in await model_history(last)]
    assert (sorted(heads[:-1]), heads[-1]) == (["apricot", "echo: apricot"], "[[history]]")
