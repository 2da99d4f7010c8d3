"""Contracts of files that go back with the conversation."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance.contract import Conformance, contract, declared, given
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.core.errors import FarsteerError, NotCapable
from farsteer.core.events import AgentMessage, FileRestore
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode


class FileContracts(Conformance):
    @contract
    async def test_a_file_that_was_made_after_a_message_goes_with_it_or_that_is_refused(
        self, stage: Stage
    ) -> None:
        scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
        if not stage.adapter.capabilities.file_restore:
            with pytest.raises(NotCapable):
                await scene.launch.restore_files(new_id(), None)
            return
        await scene.turn(stage.script.answer)
        after = _last_anchor(scene)
        await scene.turn(given(stage.script.tool))
        path = stage.directory / stage.script.tool_file
        assert path.exists()
        found = await scene.launch.restore_files(scene.messages[-1], after)
        assert (found.status, found.skipped) == (FileRestore.FULL, ())
        assert found.restored, "what was restored is named"
        assert not path.exists()
        assert (await scene.launch.restore_files(scene.messages[-1], after)).status is FileRestore.FULL

    @contract
    async def test_a_file_is_what_it_was_at_each_message_also_after_a_restart(self, stage: Stage) -> None:
        declared(stage, "file_restore", "resume")
        overwrite = given(stage.script.overwrite)
        scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
        path = stage.directory / stage.script.tool_file
        anchors: list[str | None] = [None]
        for text in ("first", "second", "third"):
            await scene.turn(overwrite.format(text=text))
            anchors.append(_last_anchor(scene))
        again = await stage.again(scene, mode=PermissionMode.YOLO)
        await again.launch.restore_files(scene.messages[2], anchors[2])
        assert "second" in path.read_text()
        await again.launch.restore_files(scene.messages[1], anchors[1])
        assert "first" in path.read_text()
        await again.launch.restore_files(scene.messages[0], anchors[0])
        assert not path.exists()

    @contract
    async def test_a_message_that_was_never_sent_changes_no_file(self, stage: Stage) -> None:
        declared(stage, "file_restore")
        scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
        await scene.turn(given(stage.script.tool))
        try:
            found = await scene.launch.restore_files(new_id(), f"nowhere-{new_id()}")
        except FarsteerError:
            pass
        else:
            assert found.status is FileRestore.FAILED
            assert found.reason
        assert (stage.directory / stage.script.tool_file).exists()


def _last_anchor(scene: Scene) -> str | None:
    return scene.events(AgentMessage)[-1].anchor
