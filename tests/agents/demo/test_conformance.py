"""The demo agent passes the conformance suite, and the contracts about its process also on uvloop."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from farsteer.agents.conformance import AdapterConformance, Prompts
from farsteer.agents.conformance.approvals import ApprovalContracts
from farsteer.agents.conformance.launches import LaunchContracts
from farsteer.agents.conformance.turns import TurnContracts
from farsteer.agents.demo.adapter import DemoAdapter

pytestmark = pytest.mark.slow


class TestDemo(AdapterConformance):
    prompts = Prompts(
        answer="say hello", long="work 1000 0.05", tool="write made.txt hello", tool_file="made.txt",
        two_tools="several 2", two_files=("several-1.txt", "several-2.txt"), question="ask", plan="plan",
        shell="run {command}",
        remember="The word is {word}.", recall="what did I say?", thinks="think of it", transcript="history",
        overwrite="write made.txt {text}", crash="crash", crash_mid="crash mid",
        stubborn="stubborn", loosen="loosen",
        ends_early="end early", repeats="repeat", unknown="noise", garbage="garbage",
    )  # fmt: skip

    def adapter(self) -> DemoAdapter:
        return DemoAdapter()


class TestDemoOnUvloop(TurnContracts, ApprovalContracts, LaunchContracts):
    prompts = TestDemo.prompts
    turn_count = 10

    def adapter(self) -> DemoAdapter:
        return DemoAdapter()

    def new_loop(self) -> asyncio.AbstractEventLoop:
        return uvloop.new_event_loop()
