"""The adapter with a real process that misbehaves as Droid can."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from farsteer.agents.base import DeltaEmitted, Exited, Launch, LaunchPlan, Prompt
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, Notice, TurnEndReason
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.lines import LINE_LIMIT
from tests.agents.droid.fake_droid import SESSION, OutputRecorder
from tests.support.eventually import eventually
from tests.support.processes import is_alive

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("misbehaving_droid.py")
DRAIN = {"FACTORY_TEST_DRAIN": "1"}


class ProcessHarness:
    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.sink = OutputRecorder()
        self._folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {"PATH": path, **(environment or {})}
        self._turns = 0

    def plan(self, *, resume: bool = False) -> LaunchPlan:
        start = LaunchMode.RESUME if resume else LaunchMode.CREATE
        return LaunchPlan(
            session_id="s", directory=str(self._folder), generation=1,
            decision=LaunchDecision(start=start, native_id=SESSION if resume else None),
            environment=self._environment, state_dir=str(self._folder), startup_timeout=20,
        )  # fmt: skip

    async def start(self, *, resume: bool = False) -> Launch:
        return await DroidAdapter(str(PROGRAM)).start(self.plan(resume=resume), self.sink)

    async def run_turn(self, launch: Launch, said: str) -> TurnEndReason:
        await self.send(launch, said)
        await self.sink.wait_until(
            lambda: any(end.turn_id == f"turn-{self._turns}" for end in self.sink.turn_ends)
        )
        return self.sink.turn_ends[-1].reason

    async def send(self, launch: Launch, said: str) -> None:
        self._turns += 1
        await launch.send(Prompt(turn_id=f"turn-{self._turns}", text=said))


async def test_a_droid_that_can_close_is_not_killed(tmp_path: Path) -> None:
    harness = ProcessHarness(tmp_path)
    launch = await harness.start()
    assert await harness.run_turn(launch, "say hello") is TurnEndReason.END_TURN
    assert [event.text for event in harness.sink.events_of(AgentMessage)] == ["hello"]
    begun = time.monotonic()
    await launch.stop()
    assert time.monotonic() - begun < 3, "closing takes less than the grace period"
    assert harness.sink.outputs[-1] == Exited(exit_code=0, reason="stopped")


async def test_a_droid_that_drains_after_eof_and_sigterm_is_killed_in_time(tmp_path: Path) -> None:
    harness = ProcessHarness(tmp_path, DRAIN)
    launch = await harness.start()
    await harness.send(launch, "work on and on")
    await harness.sink.wait_until(lambda: bool(harness.sink.outputs_of(DeltaEmitted)))
    begun = time.monotonic()
    await launch.stop(0.2)
    assert time.monotonic() - begun < 5
    assert not psutil.pid_exists(launch.pid)
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.CANCELLED]
    (said,) = harness.sink.events_of(AgentMessage)
    assert (said.text, said.partial) == ("on and on", True)
    assert harness.sink.outputs[-1] == Exited(exit_code=-9, reason="stopped")


async def test_a_line_of_32_megabytes_is_skipped_and_one_below_is_read(tmp_path: Path) -> None:
    harness = ProcessHarness(tmp_path)
    launch = await harness.start()
    assert await harness.run_turn(launch, f"big {LINE_LIMIT + 1} after all") is TurnEndReason.END_TURN
    assert await harness.run_turn(launch, f"big {LINE_LIMIT - 1} again") is TurnEndReason.END_TURN
    skipped, invalid = harness.sink.events_of(Notice)
    assert (skipped.code, invalid.code) == (ErrorCode.TOO_LARGE, ErrorCode.AGENT_PROTOCOL)
    assert [event.text for event in harness.sink.events_of(AgentMessage)] == [
        f"{LINE_LIMIT + 1} after all", f"{LINE_LIMIT - 1} again",
    ]  # fmt: skip
    await launch.stop()


async def test_a_droid_that_stops_reading_is_stopped_and_its_session_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.agents.process_launch._WRITE_TIMEOUT", 0.3)
    harness = ProcessHarness(tmp_path)
    launch = await harness.start()
    await harness.send(launch, "deaf")
    await launch.interrupt()
    with pytest.raises(AgentError) as caught:
        await launch.set_model("x" * 2_000_000)
    assert caught.value.code is ErrorCode.TIMEOUT
    await launch.stop(0.1)
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.CANCELLED]
    again = await harness.start(resume=True)
    assert await harness.run_turn(again, "say back again") is TurnEndReason.END_TURN
    await again.stop()


async def test_an_exit_during_a_turn_is_a_crash(tmp_path: Path) -> None:
    harness = ProcessHarness(tmp_path)
    launch = await harness.start()
    assert await harness.run_turn(launch, "mute") is TurnEndReason.CRASHED
    await harness.sink.wait_until(lambda: isinstance(harness.sink.outputs[-1], Exited))
    assert harness.sink.outputs[-1] == Exited(exit_code=3, reason="exit code 3")
    await launch.stop()


async def test_another_program_is_a_failed_start(tmp_path: Path) -> None:
    program = tmp_path / "droid"
    program.write_text("#!/bin/sh\necho 'usage: something else' >&2\nexit 2\n")
    program.chmod(0o755)
    harness = ProcessHarness(tmp_path)
    with pytest.raises(AgentError) as caught:
        await DroidAdapter(str(program)).start(harness.plan(), harness.sink)
    assert caught.value.code is ErrorCode.AGENT_START_FAILED
    assert "something else" in str(caught.value.details["stderr"])


RUNNER = """
import asyncio, sys
from pathlib import Path
from tests.agents.droid.test_process import DRAIN, ProcessHarness

async def main():
    harness = ProcessHarness(Path(sys.argv[1]), DRAIN)
    launch = await harness.start()
    await harness.send(launch, "work on and on")
    print(launch.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_droid_of_a_killed_runner_is_killed_before_its_conversation_is_resumed(
    tmp_path: Path,
) -> None:
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNNER, str(tmp_path), stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert runner.stdout is not None
    async with asyncio.timeout(30):
        orphan = psutil.Process(int(await runner.stdout.readline()))
    runner.kill()
    await runner.communicate()
    assert is_alive(orphan), "the end of its input does not end a draining Droid"
    harness = ProcessHarness(tmp_path)
    launch = await harness.start(resume=True)
    await eventually(lambda: not is_alive(orphan))
    assert await harness.run_turn(launch, "say mine again") is TurnEndReason.END_TURN
    await launch.stop()
