"""The adapter of the demo agent, with the process of `agent.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from farsteer.agents.base import Launch, LaunchPlan, Sink
from farsteer.agents.demo.adapter import DemoAdapter
from farsteer.agents.demo.launch import DemoLaunch

ARGV = (sys.executable, "-I", str(Path(__file__).with_name("agent.py")))


class BenchAdapter(DemoAdapter):
    name: ClassVar[str] = "bench"
    title: ClassVar[str] = "Benchmark agent"

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        return await DemoLaunch.start(ARGV, plan, sink)
