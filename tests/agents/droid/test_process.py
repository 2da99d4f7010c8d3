"""The adapter with a real process that behaves as badly as Droid can."""

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
from tests.agents.droid.peer import SESSION, Recorder
from tests.support.eventually import eventually
from tests.support.processes import is_alive

CHILD = Path(__file__).with_name("child.py")
DRAIN = {"FACTORY_TEST_DRAIN": "1"}


class Play:
    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.sink = Recorder()
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
        return await DroidAdapter(str(CHILD)).start(self.plan(resume=resume), self.sink)

    async def turn(self, launch: Launch, said: str) -> TurnEndReason:
        await self.begin(launch, said)
        await self.sink.until(lambda: any(end.turn_id == f"turn-{self._turns}" for end in self.sink.ends))
        return self.sink.ends[-1].reason

    async def begin(self, launch: Launch, said: str) -> None:
        self._turns += 1
        await launch.send(Prompt(turn_id=f"turn-{self._turns}", text=said))


async def test_a_turn_and_a_polite_end(tmp_path: Path) -> None:
    play = Play(tmp_path)
    launch = await play.start()
    assert await play.turn(launch, "say hello") is TurnEndReason.END_TURN
    assert [event.text for event in play.sink.events(AgentMessage)] == ["hello"]
    begun = time.monotonic()
    await launch.stop()
    assert time.monotonic() - begun < 3, "a Droid that can be closed need not be killed"
    assert play.sink.outputs[-1] == Exited(exit_code=0, reason="stopped")


async def test_eof_and_sigterm_that_drain_instead_of_stopping_do_not_delay_the_end(tmp_path: Path) -> None:
    play = Play(tmp_path, DRAIN)
    launch = await play.start()
    await play.begin(launch, "work on and on")
    await play.sink.until(lambda: bool(play.sink.of(DeltaEmitted)))
    begun = time.monotonic()
    await launch.stop(0.2)
    assert time.monotonic() - begun < 5
    assert not psutil.pid_exists(launch.pid)
    assert [end.reason for end in play.sink.ends] == [TurnEndReason.CANCELLED]
    (said,) = play.sink.events(AgentMessage)
    assert (said.text, said.partial) == ("on and on", True)
    assert play.sink.outputs[-1] == Exited(exit_code=-9, reason="stopped")


async def test_a_line_of_32_megabytes_is_skipped_and_one_below_is_read(tmp_path: Path) -> None:
    play = Play(tmp_path)
    launch = await play.start()
    assert await play.turn(launch, f"big {LINE_LIMIT + 1} after all") is TurnEndReason.END_TURN
    assert await play.turn(launch, f"big {LINE_LIMIT - 1} again") is TurnEndReason.END_TURN
    skipped, garbage = play.sink.events(Notice)
    assert (skipped.code, garbage.code) == (ErrorCode.TOO_LARGE, ErrorCode.AGENT_PROTOCOL)
    assert [event.text for event in play.sink.events(AgentMessage)] == [
        f"{LINE_LIMIT + 1} after all", f"{LINE_LIMIT - 1} again",
    ]  # fmt: skip
    await launch.stop()


async def test_a_peer_that_stops_reading_costs_its_life_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.agents.droid.launch._WRITE_TIMEOUT", 0.3)
    play = Play(tmp_path)
    launch = await play.start()
    await play.begin(launch, "deaf")
    await launch.interrupt()
    with pytest.raises(AgentError) as caught:
        await launch.commands.rename("x" * 2_000_000)  # pyright: ignore[reportAttributeAccessIssue]
    assert caught.value.code is ErrorCode.TIMEOUT
    await launch.stop(0.1)
    assert [end.reason for end in play.sink.ends] == [TurnEndReason.CANCELLED]
    again = await play.start(resume=True)
    assert await play.turn(again, "say back again") is TurnEndReason.END_TURN
    await again.stop()


async def test_a_process_that_dies_in_the_turn_is_a_crash(tmp_path: Path) -> None:
    play = Play(tmp_path)
    launch = await play.start()
    assert await play.turn(launch, "mute") is TurnEndReason.CRASHED
    await play.sink.until(lambda: isinstance(play.sink.outputs[-1], Exited))
    assert play.sink.outputs[-1] == Exited(exit_code=3, reason="exit code 3")
    await launch.stop()


async def test_a_program_that_is_no_droid_is_a_failed_start(tmp_path: Path) -> None:
    program = tmp_path / "droid"
    program.write_text("#!/bin/sh\necho 'usage: something else' >&2\nexit 2\n")
    program.chmod(0o755)
    play = Play(tmp_path)
    with pytest.raises(AgentError) as caught:
        await DroidAdapter(str(program)).start(play.plan(), play.sink)
    assert caught.value.code is ErrorCode.AGENT_START_FAILED
    assert "something else" in str(caught.value.details["stderr"])


RUNNER = """
import asyncio, sys
from pathlib import Path
from tests.agents.droid.test_process import DRAIN, Play

async def main():
    play = Play(Path(sys.argv[1]), DRAIN)
    launch = await play.start()
    await play.begin(launch, "work on and on")
    print(launch.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_droid_of_a_runner_that_was_killed_is_ended_before_its_conversation_is_resumed(
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
    assert is_alive(orphan), "it drains: the end of its input does not end it"
    play = Play(tmp_path)
    launch = await play.start(resume=True)
    await eventually(lambda: not is_alive(orphan))
    assert await play.turn(launch, "say mine again") is TurnEndReason.END_TURN
    await launch.stop()
