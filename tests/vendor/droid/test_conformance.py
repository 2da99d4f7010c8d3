"""The real Droid passes the contracts that every adapter must pass."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance import AdapterConformance, Script
from farsteer.agents.conformance.contract import contract
from farsteer.agents.conformance.stage import Stage
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.core.errors import AgentError, NotCapable
from farsteer.core.events import AgentMessage
from tests.vendor.droid.conftest import only_new, only_old
from tests.vendor.pins import Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


class DroidContracts(AdapterConformance):
    script = Script(
        answer="[[think:hm]][[say:hello there]]", long="[[say:I begin. ]][[hang]]", tool="[[bash:touch made.txt]]",
        tool_file="made.txt", question="[[ask:Which color?:Red|Blue]]", plan="[[plan:# The plan]]",
        shell="[[bash:{command}]]", remember="remember {word}", recall="[[history]]",
    )  # fmt: skip
    patience = 45.0
    turns = 10

    @pytest.fixture(autouse=True)
    def _machine(self, droid: Pin) -> None:
        """The contracts take no fixtures of ours."""

    def adapter(self) -> DroidAdapter:
        return DroidAdapter()


@only_new
class TestDroid(DroidContracts):
    pass


@only_old
class TestOldDroid(DroidContracts):
    """It says that it has rewound a conversation and cuts nothing; the adapter must notice."""

    @contract
    async def test_a_rewound_conversation_knows_nothing_after_the_cut(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.turn("remember apricot")
        anchor = scene.events(AgentMessage)[-1].anchor
        await scene.turn("remember walnut")
        with pytest.raises((AgentError, NotCapable), match="cut"):
            await stage.again(scene, cut_at=anchor)
        assert stage.leftovers() == []

    @contract
    async def test_a_fork_knows_the_past_and_leaves_its_source_alone(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.turn("remember apricot")
        fork = await stage.launch(stage.plan(fork_of=scene.launch.native_id))
        assert fork.launch.native_id != scene.launch.native_id
        await fork.turn("remember cherry")
        await fork.turn("[[history]]")
        assert "apricot" in fork.events(AgentMessage)[-1].text
        await scene.turn("[[history]]")
        assert "cherry" not in scene.events(AgentMessage)[-1].text
