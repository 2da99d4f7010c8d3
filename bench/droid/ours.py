"""Reads a flood with our adapter: `python -m bench.droid.ours PROGRAM COUNT`. Prints characters and CPU seconds."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
from collections.abc import Sequence

from farsteer.agents.base import DeltaEmitted, LaunchPlan, Output, Prompt, TurnEnded
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchDecision, LaunchMode


class Counter:
    """A sink that counts the streamed characters."""

    def __init__(self) -> None:
        self.characters = 0
        self.ended = asyncio.Event()

    async def put(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if isinstance(output, DeltaEmitted):
                self.characters += len(output.delta.text)
            elif isinstance(output, TurnEnded):
                self.ended.set()


async def read(program: str, count: int) -> tuple[int, float]:
    sink = Counter()
    with tempfile.TemporaryDirectory() as folder:
        plan = LaunchPlan(
            session_id=new_id(),
            directory=folder,
            generation=1,
            decision=LaunchDecision(start=LaunchMode.CREATE),
            environment={**os.environ, "HOME": folder},
            state_dir=folder,
        )
        launch = await DroidAdapter(program).start(plan, sink)
        try:
            before = _cpu()
            await launch.send(Prompt(turn_id=new_id(), text=f"flood {count}"))
            await sink.ended.wait()
            return sink.characters, _cpu() - before
        finally:
            await launch.stop()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    import uvloop

    print(*uvloop.run(read(sys.argv[1], int(sys.argv[2]))))
