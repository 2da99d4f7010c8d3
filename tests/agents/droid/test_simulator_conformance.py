"""The adapter keeps its contracts with a Droid of any version, and with one that stutters."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.conformance import AdapterConformance, Script
from farsteer.agents.conformance.approvals import ApprovalContracts
from farsteer.agents.conformance.contract import Conformance, contract
from farsteer.agents.conformance.stage import Stage
from farsteer.agents.conformance.turns import TurnContracts
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.core.errors import NotCapable
from farsteer.core.events import AgentMessage
from tests.support.droid_simulator import install


class Simulated(Conformance):
    profile = ""
    options: tuple[str, ...] = ()
    script = Script(
        answer="think hm", long="work", tool="run touch made.txt", tool_file="made.txt", question="ask", plan="plan",
        shell="run {command}", remember="The word is {word}.", recall="recall", crash="crash", crash_mid="crash mid",
        stubborn="stubborn", ends_early="end early", repeats="repeat", unknown="unknown", garbage="garbage",
    )  # fmt: skip
    turns = 20

    @pytest.fixture(autouse=True)
    def _machine(self, home: Path, tmp_path: Path) -> None:
        """The contracts take no fixtures of ours."""
        self._executable = install(tmp_path, self.profile, *self.options)

    def adapter(self) -> DroidAdapter:
        return DroidAdapter(self._executable)


class WithoutCopies(Simulated, AdapterConformance):
    """Versions that can neither fork nor rewind say so when they are asked."""

    @contract
    async def test_a_rewound_conversation_knows_nothing_after_the_cut(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.turn("The word is apricot.")
        anchor = scene.events(AgentMessage)[-1].anchor
        await scene.turn("The word is walnut.")
        with pytest.raises(NotCapable):
            await stage.again(scene, cut_at=anchor)

    @contract
    async def test_a_fork_knows_the_past_and_leaves_its_source_alone(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.turn("The word is apricot.")
        await scene.launch.stop()
        with pytest.raises(NotCapable):
            await stage.launch(stage.plan(fork_of=scene.launch.native_id))


class TestDroid036(WithoutCopies):
    profile = "0.36"


class TestDroid057(WithoutCopies):
    profile = "0.57"


class TestDroid099(Simulated, AdapterConformance):
    profile = "0.99"


class TestDroid0215(Simulated, AdapterConformance):
    profile = "0.215"
    turns = 100


class TestStutteringDroid(Simulated, TurnContracts, ApprovalContracts):
    profile = "0.215"
    options = (
        "--misbehave", "duplicates", "--misbehave", "double-response", "--misbehave", "premature-idle",
        "--misbehave", "strange-keys",
    )  # fmt: skip
