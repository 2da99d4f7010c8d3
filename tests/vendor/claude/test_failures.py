"""What goes wrong with the real Claude Code: interrupts, errors of the model, a missing login, kills."""

from __future__ import annotations

import os
import signal

import pytest

from farsteer.agents.base import Exited
from farsteer.agents.conformance.harness import Harness
from farsteer.core.events import Notice, ToolCall, TurnEndReason
from farsteer.core.modes import PermissionMode
from tests.vendor.claude.conftest import model_history

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


async def test_an_interrupt_in_mid_stream_is_no_failure(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("[[say:I begin. ]][[hang]]")
    await agent.launch.interrupt()
    ended = await agent.wait_for_end(turn_id)
    assert (ended.reason, ended.error) == (TurnEndReason.CANCELLED, None)
    assert (await agent.run_turn("[[say:next]]")).reason is TurnEndReason.END_TURN


async def test_an_interrupt_ends_a_running_command(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    turn_id = await agent.send("[[bash:touch begun; sleep 60; touch ended]]")
    await agent.wait_until(lambda: bool(agent.events_of(ToolCall)))
    await agent.launch.interrupt()
    ended = await agent.wait_for_end(turn_id)
    assert (ended.reason, ended.error) == (TurnEndReason.CANCELLED, None)
    assert not (harness.directory / "ended").exists()


async def test_an_interrupt_ends_a_sub_agent_in_the_background(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    turn_id = await agent.send(
        '[[tool:Task:{"description":"d","prompt":"[[bash:touch sub; sleep 60]]","subagent_type":"general-purpose",'
        '"run_in_background":true}]][[say:main]]'
    )
    await agent.wait_until(lambda: len(agent.events_of(ToolCall)) == 2)
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert (await agent.run_turn("[[say:next]]")).reason is TurnEndReason.END_TURN


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
async def test_an_error_of_the_model_is_the_reason_of_the_end(harness: Harness, status: int) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn(f"[[error:{status}]]")
    assert ended.reason is TurnEndReason.FAILED
    assert ended.error is not None
    assert str(status) in ended.error
    assert ("/login" in ended.error) == (status == 401)
    assert (await agent.run_turn("[[say:next]]")).reason is TurnEndReason.END_TURN


async def test_a_retry_is_a_notice(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("[[error:500:1]][[say:second attempt]]")
    assert ended.reason is TurnEndReason.END_TURN
    (notice,) = [notice for notice in agent.events_of(Notice) if notice.code == "retry"]
    assert notice.level == "warning"


async def test_a_missing_login_says_how_to_log_in(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert (await harness.adapter.detect()).login == "claude auth login"
    agent = await harness.launch()
    ended = await agent.run_turn("hello")
    assert ended.reason is TurnEndReason.FAILED
    assert "ANTHROPIC_API_KEY" in (ended.error or "")


async def test_a_killed_process_ends_the_turn_as_crashed_and_can_be_resumed(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("remember apricot")
    turn_id = await agent.send_and_wait("[[say:I begin. ]][[hang]]")
    os.kill(agent.launch.pid, signal.SIGKILL)
    ended = await agent.wait_for_end(turn_id)
    assert ended.reason is TurnEndReason.CRASHED
    await agent.wait_until(lambda: bool(agent.outputs_of(Exited)))
    resumed = await harness.relaunch(agent)
    assert "remember apricot" in [text for _, text in await model_history(resumed)]
