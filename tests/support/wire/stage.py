"""What a scenario acts on: the same with the real CLI and in a replay."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from farsteer.agents.base import ApprovalAsked, Launch, LaunchPlan, Output, Prompt, Sink
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.approvals import Answer, Outcome, check_answer
from farsteer.core.ids import new_id
from farsteer.core.mcp import McpServer
from farsteer.core.modes import PermissionMode
from tests.support.outputs import format_output

ROOT = Path(__file__).parents[3]
ECHO_SERVER = McpServer(
    name="echo", command=sys.executable, args=(str(ROOT / "tests" / "vendor" / "droid" / "echo_server.py"),)
)  # fmt: skip


class Stage:
    """The launches of one scenario.

    Args:
        harness: Where they are started. Its adapter is watched from now on.
        meet: Releases a model that waits at `[[meet:NAME:2]]`.
        is_real: Whether there is a CLI, and a directory with files.
    """

    def __init__(self, harness: Harness, meet: Callable[[str], None], *, is_real: bool) -> None:
        self.harness = harness
        self.meet = meet
        self.lines: list[str] = []
        """The outputs of all launches, one line each, as in a golden file."""
        self._is_real = is_real
        self._watch()

    def _watch(self) -> None:
        adapter, start, lines = self.harness.adapter, self.harness.adapter.start, self.lines

        async def watched(plan: LaunchPlan, sink: Sink) -> Launch:
            return await start(plan, _WatchedSink(sink, lines))

        setattr(adapter, "start", watched)  # noqa: B010

    # -- what a scenario does

    def write_file(self, name: str, text: str) -> str:
        """Write a file into the directory of the sessions and return its path."""
        path = self.harness.directory / name
        if self._is_real:
            path.write_text(text)
        return str(path)

    def configure(self, file: str, text: str) -> None:
        """Add a text to a file below the user's home."""
        if self._is_real:
            with (Path.home() / file).open("a") as config:
                config.write(text)

    async def launch(self, plan: LaunchPlan | None = None, **changes: Any) -> RecordedLaunch:
        return await self.harness.launch(msgspec.structs.replace(plan or self.harness.plan(), **changes))

    async def launch_in(self, mode: PermissionMode, **changes: Any) -> RecordedLaunch:
        return await self.launch(self.harness.plan(mode=mode), **changes)

    async def decide(
        self, agent: RecordedLaunch, script: str, outcome: Outcome, option: str | None = None, **fields: Any
    ) -> None:
        """Run a turn that asks one thing, and answer it."""
        before = len(agent.outputs_of(ApprovalAsked))
        turn_id = await agent.send(script)
        approval = (await agent.wait_for_approvals(before + 1))[-1]
        answer = Answer(outcome=outcome, option_id=option, **fields)
        await agent.launch.answer(approval, check_answer(approval, answer))
        await agent.wait_for_end(turn_id)

    async def steer(self, agent: RecordedLaunch, text: str) -> None:
        await agent.launch.steer(Prompt(turn_id=agent.turn_ids[-1], text=text, message_id=new_id()))

    async def interrupt(self, agent: RecordedLaunch) -> None:
        """Interrupt the last turn and wait for its end."""
        await agent.launch.interrupt()
        await agent.wait_for_end(agent.turn_ids[-1])


Scenario = Callable[[Stage], Awaitable[None]]


class _WatchedSink:
    def __init__(self, sink: Sink, lines: list[str]) -> None:
        self._sink = sink
        self._lines = lines

    async def put(self, outputs: Sequence[Output]) -> None:
        self._lines += map(format_output, outputs)
        await self._sink.put(outputs)
