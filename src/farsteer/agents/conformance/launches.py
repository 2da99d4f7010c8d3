"""Contracts of a launch: it is ready when `start` returns, and it leaves no process when it ends."""

from __future__ import annotations

import asyncio
import os
import time

import psutil
import pytest

from farsteer.agents.base import Exited, TurnEnded
from farsteer.agents.conformance.harness import Harness
from farsteer.agents.conformance.suite import ConformanceSuite, contract, require_prompt
from farsteer.core.errors import AgentError
from farsteer.core.events import AgentMessage, AgentThought, TurnEndReason
from farsteer.core.modes import PermissionMode

_HIDDEN_VALUE = "not-for-agents"


class LaunchContracts(ConformanceSuite):
    @contract
    async def test_detect_reports_an_available_agent_with_its_capabilities(self, harness: Harness) -> None:
        info = await harness.adapter.detect()
        assert info.name == harness.adapter.name
        assert info.available, info.reason
        assert info.capabilities == harness.adapter.capabilities

    @contract
    async def test_stop_ends_an_idle_agent(self, harness: Harness) -> None:
        agent = await harness.launch()
        assert psutil.pid_exists(agent.launch.pid)
        await agent.launch.stop()
        assert not psutil.pid_exists(agent.launch.pid), "the process must be reaped"
        assert isinstance(agent.outputs[-1], Exited), "`stop` must return after `Exited`"
        await agent.launch.stop()

    @contract
    async def test_stop_ends_a_running_turn_as_cancelled(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send_and_wait(harness.prompts.long)
        await agent.launch.stop()
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
        assert harness.leftover_processes() == []

    @contract
    async def test_stop_ends_an_agent_that_ignores_sigterm(self, harness: Harness) -> None:
        agent = await harness.launch()
        await agent.send_and_wait(require_prompt(harness.prompts.stubborn))
        started = time.monotonic()
        await agent.launch.stop(0.3)
        assert time.monotonic() - started < 3
        assert harness.leftover_processes() == []

    @contract
    async def test_a_crash_ends_the_turn_and_then_the_launch(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send(require_prompt(harness.prompts.crash))
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CRASHED
        exited = await agent.wait_for_exit()
        assert exited.exit_code != 0
        assert agent.outputs.index(exited) == agent.outputs.index(await agent.wait_for_end(turn_id)) + 1
        with pytest.raises(AgentError):
            await agent.send(harness.prompts.answer)

    @contract
    async def test_a_message_that_a_crash_cut_short_is_kept_as_partial(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send(require_prompt(harness.prompts.crash_mid))
        await agent.wait_for_exit()
        emitted = (*agent.events_of(AgentMessage), *agent.events_of(AgentThought))
        assert [event for event in emitted if event.partial], (
            "streamed text must be emitted as a partial message"
        )
        assert isinstance(agent.outputs[-2], TurnEnded)
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CRASHED

    @contract
    async def test_a_start_that_takes_too_long_fails_and_leaves_no_process(self, harness: Harness) -> None:
        with pytest.raises(AgentError):
            await harness.launch(harness.plan(startup_timeout=0.001))
        assert harness.leftover_processes() == []

    @contract
    async def test_a_start_that_is_cancelled_leaves_no_process(self, harness: Harness) -> None:
        start = asyncio.create_task(harness.launch())
        while not harness.leftover_processes() and not start.done():  # noqa: ASYNC110
            await asyncio.sleep(0)
        start.cancel()
        await asyncio.wait([start])
        assert not start.cancelled() or harness.leftover_processes() == []

    @contract
    async def test_a_missing_directory_is_an_agent_error(self, harness: Harness) -> None:
        with pytest.raises(AgentError):
            await harness.launch(harness.plan(directory=harness.directory / "missing"))
        assert harness.leftover_processes() == []

    @contract
    async def test_it_runs_in_the_planned_directory(self, harness: Harness) -> None:
        text = await _run_shell(harness, "pwd -P")
        assert harness.real_directory in text

    @contract
    async def test_it_sees_only_the_planned_environment(self, harness: Harness) -> None:
        machine = {
            **os.environ,
            "CLI_API_TOKEN": _HIDDEN_VALUE,
            "FARSTEER_TOKEN": _HIDDEN_VALUE,
            "UNNAMED_KEY": _HIDDEN_VALUE,
        }
        text = await _run_shell(harness, "env", machine)
        assert "PATH=" in text
        assert _HIDDEN_VALUE not in text


async def _run_shell(harness: Harness, command: str, machine: dict[str, str] | None = None) -> str:
    plan = harness.plan(mode=PermissionMode.YOLO, machine=machine or dict(os.environ))
    agent = await harness.launch(plan)
    await agent.run_turn(require_prompt(harness.prompts.shell).format(command=command))
    return agent.text()
