"""The adapter drives Farsteer's own `farsteer acp`: both ends of the protocol are ours, in two processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from farsteer.agents.acp.adapter import AcpAdapter
from farsteer.agents.catalog.definition import AgentDefinition, Feature, NativeModeNames
from farsteer.agents.conformance import Prompts
from farsteer.agents.conformance.harness import Harness
from farsteer.core.approvals import Outcome
from farsteer.core.events import AgentMessage, TurnEndReason

pytestmark = pytest.mark.slow


async def test_farsteer_drives_farsteer(home: Path, tmp_path: Path) -> None:
    own = AgentDefinition(
        title="Farsteer", command=("farsteer", "acp", "--agent", "demo", "--home", str(tmp_path / "other")),
        can=(Feature.RESUME, Feature.IMPORT_HISTORY), modes=NativeModeNames(ask="default", plan="plan", yolo="yolo"),
    )  # fmt: skip
    program = str(Path(sys.executable).with_name("farsteer"))
    harness = Harness(AcpAdapter("farsteer", own, program), Prompts(answer="hi", long="work"), tmp_path, 20.0)
    agent = await harness.launch()
    turn = await agent.send("write made.txt hello")
    (approval,) = await agent.wait_for_approvals()
    assert not (harness.directory / "made.txt").exists()
    await agent.answer(approval, Outcome.APPROVED)
    assert (await agent.wait_for_end(turn)).reason is TurnEndReason.END_TURN
    assert (harness.directory / "made.txt").exists()
    turn = await agent.send_and_wait("work 1000 0.05")
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn)).reason is TurnEndReason.CANCELLED
    await agent.run_turn("The word is apricot.")
    resumed = await harness.relaunch(agent)
    await resumed.run_turn("what did I say?")
    assert "apricot" in resumed.events_of(AgentMessage)[-1].text
    await harness.close()
