"""What goes wrong: interrupts, errors of the model, kills."""

from __future__ import annotations

import os
import signal

import pytest

from farsteer.agents.base import ApprovalAsked, ApprovalWithdrawn, Exited
from farsteer.agents.conformance.harness import Harness
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import TurnEndReason
from farsteer.core.modes import PermissionMode
from tests.support.eventually import eventually
from tests.support.model import ScriptedModel
from tests.vendor.catalog.fixtures import STEP_TIMEOUT, model_history
from tests.vendor.catalog.profile import Profile

ATTEMPTS = 2
"""How often a CLI that repeats requests in silence must have asked before the turn is interrupted."""


class Failures:
    async def test_an_interrupt_in_mid_stream_is_no_failure(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send_and_wait("[[say:I begin. ]][[hang]]")
        await agent.launch.interrupt()
        ended = await agent.wait_for_end(turn_id)
        assert (ended.reason, ended.error) == (TurnEndReason.CANCELLED, None)
        assert (await agent.run_turn("[[new]][[say:next]]")).reason is TurnEndReason.END_TURN

    async def test_an_interrupt_ends_a_running_command(self, harness: Harness) -> None:
        agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
        turn_id = await agent.send("[[bash:sh -c 'touch begun; sleep 60; touch ended']]")
        await eventually((harness.directory / "begun").exists, STEP_TIMEOUT)
        await agent.launch.interrupt()
        ended = await agent.wait_for_end(turn_id)
        assert (ended.reason, ended.error) == (TurnEndReason.CANCELLED, None)
        assert (await agent.run_turn("[[new]][[say:next]]")).reason is TurnEndReason.END_TURN
        assert not (harness.directory / "ended").exists()

    async def test_an_interrupt_takes_back_what_was_asked(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send("[[bash:sh -c 'touch made.txt']]")
        (approval,) = await agent.wait_for_approvals()
        await agent.launch.interrupt()
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
        assert [one.approval_id for one in agent.outputs_of(ApprovalWithdrawn)] == [approval.id]
        assert (await agent.run_turn("[[new]][[say:next]]")).reason is TurnEndReason.END_TURN
        assert len(agent.outputs_of(ApprovalAsked)) == 1
        assert [*harness.directory.iterdir()] == []

    @pytest.mark.parametrize("status", [400, 401, 429, 500])
    async def test_an_error_of_the_model_fails_the_turn_or_can_be_interrupted(
        self, harness: Harness, model: ScriptedModel, cli: Profile, status: int
    ) -> None:
        script = f"[[error:{status}]]"
        agent = await harness.launch()
        turn_id = await agent.send(script)
        if status not in cli.fails_at_once:
            await eventually(lambda: self._attempts(model, script) >= ATTEMPTS, STEP_TIMEOUT)
            assert not agent.has_ended(turn_id)
            await agent.launch.interrupt()
        ended = await agent.wait_for_end(turn_id)
        if status in cli.fails_at_once:
            assert ended.reason is TurnEndReason.FAILED
            assert ended.error
            assert str(status) in ended.error or not cli.tells_errors
        else:
            assert (ended.reason, ended.error) == (TurnEndReason.CANCELLED, None)
        assert (await agent.run_turn("[[new]][[say:next]]")).reason is TurnEndReason.END_TURN

    @staticmethod
    def _attempts(model: ScriptedModel, script: str) -> int:
        return sum(seen.script == script for seen in model.log.turns)

    async def test_a_killed_process_ends_the_turn_as_crashed_and_can_be_resumed(
        self, harness: Harness, cli: Profile
    ) -> None:
        agent = await harness.launch()
        await agent.run_turn("remember apricot")
        turn_id = await agent.send_and_wait("[[say:I begin. ]][[hang]]")
        os.kill(agent.launch.pid, signal.SIGKILL)
        ended = await agent.wait_for_end(turn_id)
        assert ended.reason is TurnEndReason.CRASHED
        await agent.wait_until(lambda: bool(agent.outputs_of(Exited)))
        resumed = await harness.relaunch(agent)
        history = await model_history(resumed)
        assert "remember apricot" in history or not cli.keeps_history_at_once

    async def test_a_conversation_is_resumed_again_and_again(self, harness: Harness) -> None:
        agent = await harness.launch()
        await agent.run_turn("remember apricot")
        for word in ("walnut", "cherry"):
            agent = await harness.relaunch(agent)
            await agent.run_turn(f"[[new]]remember {word}")
        told = "\n".join(await model_history(await harness.relaunch(agent)))
        assert [word in told for word in ("apricot", "walnut", "cherry")] == [True] * 3

    async def test_a_conversation_that_is_not_there_is_told_so(self, harness: Harness) -> None:
        agent = await harness.launch()
        await agent.run_turn("hello")
        known = agent.launch.native_id
        assert known is not None
        with pytest.raises(AgentError) as caught:
            await harness.launch(harness.plan(resume=f"{known[:-4]}0000"))
        assert caught.value.code is ErrorCode.CONVERSATION_MISSING
