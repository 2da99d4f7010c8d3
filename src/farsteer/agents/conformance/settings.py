"""Contracts of what can be changed while an agent runs: done, or refused as declared."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from farsteer.agents.base import ApprovalAsked
from farsteer.agents.conformance.contract import Conformance, contract, given
from farsteer.agents.conformance.stage import Stage
from farsteer.core.approvals import Outcome
from farsteer.core.errors import NotCapable
from farsteer.core.modes import PermissionMode, ReasoningEffort


class SettingsContracts(Conformance):
    @contract
    async def test_the_model_changes_or_is_refused(self, stage: Stage) -> None:
        scene = await stage.launch()
        models = (await stage.adapter.detect()).models
        change = scene.launch.set_model(models[-1] if models else "some-model")
        await _done_or_refused(change, able=stage.adapter.capabilities.live_model)
        await scene.turn(stage.script.answer)

    @contract
    async def test_the_effort_changes_or_is_refused(self, stage: Stage) -> None:
        scene = await stage.launch()
        change = scene.launch.set_effort(ReasoningEffort.HIGH)
        await _done_or_refused(change, able=stage.adapter.capabilities.live_effort)
        await scene.turn(stage.script.answer)

    @contract
    async def test_the_permission_mode_changes_or_is_refused(self, stage: Stage) -> None:
        scene = await stage.launch()
        change = scene.launch.set_permission_mode(PermissionMode.YOLO)
        await _done_or_refused(change, able=stage.adapter.capabilities.live_mode)
        await scene.turn(stage.script.answer)

    @contract
    async def test_a_changed_permission_mode_counts_from_the_next_tool_on(self, stage: Stage) -> None:
        if not stage.adapter.capabilities.live_mode:
            pytest.skip("the mode does not change while it runs")
        scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
        await scene.launch.set_permission_mode(PermissionMode.DEFAULT)
        turn_id = await scene.begin(given(stage.script.tool))
        (approval,) = await scene.asked()
        await scene.answer(approval, Outcome.DENIED)
        await scene.end(turn_id)
        await scene.launch.set_permission_mode(PermissionMode.YOLO)
        await scene.turn(given(stage.script.tool))
        assert len(scene.of(ApprovalAsked)) == 1


async def _done_or_refused(change: Awaitable[None], *, able: bool) -> None:
    if able:
        await change
    else:
        with pytest.raises(NotCapable):
            await change
