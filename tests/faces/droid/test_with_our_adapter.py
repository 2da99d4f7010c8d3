"""Our Droid adapter on our Droid face: the demo agent behind them passes the contracts of an adapter."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from farsteer.agents.conformance import Prompts
from farsteer.agents.conformance.conversations import ConversationContracts, last_anchor, recall, remember
from farsteer.agents.conformance.harness import Harness
from farsteer.agents.conformance.suite import contract
from farsteer.agents.conformance.turns import TurnContracts
from farsteer.agents.droid.adapter import DroidAdapter

pytestmark = [pytest.mark.slow, pytest.mark.faults]


class TestDemoAgentAsDroid(TurnContracts, ConversationContracts):
    prompts = Prompts(
        answer="think hm", long="work 1000 0.05", remember="The word is {word}.", recall="what did I say?",
        unknown="noise", garbage="garbage",
    )  # fmt: skip
    step_timeout = 20.0
    turn_count = 20

    @pytest.fixture(autouse=True)
    def _machine(self, home: Path, tmp_path: Path) -> None:
        """The contracts take no fixtures of ours. An agent sees no variable of ours, so the wrapper says the home."""
        self._executable = tmp_path / "droid"
        face = shlex.join(["env", f"FARSTEER_HOME={home}", sys.executable, "-m", "farsteer"])
        self._executable.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && exec echo 0.57.14\nexec {face} "$@"\n'
        )
        self._executable.chmod(0o755)

    def adapter(self) -> DroidAdapter:
        return DroidAdapter(str(self._executable))

    @contract
    async def test_a_fork_has_the_history_and_leaves_its_source_unchanged(self, harness: Harness) -> None:
        """With one process at a time, for each brings its own hub."""
        agent = await harness.launch()
        await remember(harness, agent, "apricot")
        anchor = last_anchor(agent)
        await remember(harness, agent, "walnut")
        await agent.launch.stop()
        fork = await harness.launch(harness.plan(fork_of=agent.launch.native_id, cut_at=anchor))
        assert fork.launch.native_id != agent.launch.native_id
        await remember(harness, fork, "cherry")
        words = await recall(harness, fork)
        assert "apricot" in words
        assert "walnut" not in words
        await fork.launch.stop()
        source = await recall(harness, await harness.relaunch(agent))
        assert "walnut" in source
        assert "cherry" not in source
