"""Contracts of a launch's life: it starts ready or not at all, and it ends with nothing left."""

from __future__ import annotations

import asyncio
import os
import time

import psutil
import pytest

from farsteer.agents.base import Exited, TurnEnded
from farsteer.agents.conformance.contract import Conformance, contract, given
from farsteer.agents.conformance.stage import Stage
from farsteer.core.errors import AgentError
from farsteer.core.events import AgentMessage, AgentThought, TurnEndReason
from farsteer.core.modes import PermissionMode

_SECRET = "never-to-be-seen-by-an-agent"  # noqa: S105


class LifeContracts(Conformance):
    @contract
    async def test_detecting_it_says_who_it_is(self, stage: Stage) -> None:
        info = await stage.adapter.detect()
        assert info.name == stage.adapter.name
        assert info.available, info.reason
        assert info.capabilities == stage.adapter.capabilities

    @contract
    async def test_stop_ends_an_idle_agent(self, stage: Stage) -> None:
        scene = await stage.launch()
        assert psutil.pid_exists(scene.launch.pid)
        await scene.launch.stop()
        assert not psutil.pid_exists(scene.launch.pid), "it is reaped, not only dead"
        assert isinstance(scene.outputs[-1], Exited), "`stop` returns after `Exited` was put"
        await scene.launch.stop()

    @contract
    async def test_stop_ends_a_running_turn_as_cancelled(self, stage: Stage) -> None:
        scene = await stage.launch()
        turn_id = await scene.working(stage.script.long)
        await scene.launch.stop()
        assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
        assert stage.leftovers() == []

    @contract
    async def test_stop_ends_an_agent_that_does_not_want_to(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.working(given(stage.script.stubborn))
        begun = time.monotonic()
        await scene.launch.stop(0.3)
        assert time.monotonic() - begun < 3
        assert stage.leftovers() == []

    @contract
    async def test_a_crash_ends_the_turn_and_then_the_launch(self, stage: Stage) -> None:
        scene = await stage.launch()
        turn_id = await scene.begin(given(stage.script.crash))
        assert (await scene.end(turn_id)).reason is TurnEndReason.CRASHED
        exited = await scene.exited()
        assert exited.exit_code != 0
        assert scene.outputs.index(exited) == scene.outputs.index(await scene.end(turn_id)) + 1
        with pytest.raises(AgentError):
            await scene.begin(stage.script.answer)

    @contract
    async def test_a_message_that_a_crash_cut_short_is_kept_as_partial(self, stage: Stage) -> None:
        scene = await stage.launch()
        turn_id = await scene.begin(given(stage.script.crash_mid))
        await scene.exited()
        said = (*scene.events(AgentMessage), *scene.events(AgentThought))
        assert [event for event in said if event.partial], (
            "what was streamed is in the log, marked as partial"
        )
        assert isinstance(scene.outputs[-2], TurnEnded)
        assert (await scene.end(turn_id)).reason is TurnEndReason.CRASHED

    @contract
    async def test_a_start_that_takes_too_long_fails_and_leaves_nothing(self, stage: Stage) -> None:
        with pytest.raises(AgentError):
            await stage.launch(stage.plan(startup_timeout=0.001))
        assert stage.leftovers() == []

    @contract
    async def test_a_start_that_is_cancelled_leaves_nothing(self, stage: Stage) -> None:
        start = asyncio.create_task(stage.launch())
        while not stage.leftovers() and not start.done():  # noqa: ASYNC110
            await asyncio.sleep(0)
        start.cancel()
        await asyncio.wait([start])
        assert not start.cancelled() or stage.leftovers() == []

    @contract
    async def test_a_directory_that_is_not_there_is_an_agent_error(self, stage: Stage) -> None:
        with pytest.raises(AgentError):
            await stage.launch(stage.plan(directory=stage.directory / "missing"))
        assert stage.leftovers() == []

    @contract
    async def test_it_works_in_its_directory(self, stage: Stage) -> None:
        words = await _shell(stage, "pwd -P")
        assert os.path.realpath(stage.directory) in words  # noqa: ASYNC240

    @contract
    async def test_it_sees_the_planned_environment_and_no_more(self, stage: Stage) -> None:
        machine = {**os.environ, "CLI_API_TOKEN": _SECRET, "FARSTEER_TOKEN": _SECRET, "UNNAMED_KEY": _SECRET}
        words = await _shell(stage, "env", machine)
        assert "PATH=" in words
        assert _SECRET not in words


async def _shell(stage: Stage, command: str, machine: dict[str, str] | None = None) -> str:
    plan = stage.plan(mode=PermissionMode.YOLO, machine=machine or dict(os.environ))
    scene = await stage.launch(plan)
    await scene.turn(given(stage.script.shell).format(command=command))
    return scene.words()
