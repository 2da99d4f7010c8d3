"""Our own Droid adapter takes the face for a Droid: any agent behind it keeps the contracts of an adapter."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from farsteer.agents.conformance import Script
from farsteer.agents.conformance.contract import contract
from farsteer.agents.conformance.memory import MemoryContracts, anchor_of, recall, remember
from farsteer.agents.conformance.stage import Stage
from farsteer.agents.conformance.turns import TurnContracts
from farsteer.agents.droid.adapter import DroidAdapter


class TestDemoAgentAsDroid(TurnContracts, MemoryContracts):
    script = Script(
        answer="think hm", long="work 1000 0.05", remember="The word is {word}.", recall="what did I say?",
        unknown="noise", garbage="garbage",
    )  # fmt: skip
    patience = 20.0
    turns = 20

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
    async def test_a_fork_knows_the_past_and_leaves_its_source_alone(self, stage: Stage) -> None:
        """With one process at a time, for each brings its own hub."""
        scene = await stage.launch()
        await remember(stage, scene, "apricot")
        anchor = anchor_of(scene)
        await remember(stage, scene, "walnut")
        await scene.launch.stop()
        fork = await stage.launch(stage.plan(fork_of=scene.launch.native_id, cut_at=anchor))
        assert fork.launch.native_id != scene.launch.native_id
        await remember(stage, fork, "cherry")
        words = await recall(stage, fork)
        assert "apricot" in words
        assert "walnut" not in words
        await fork.launch.stop()
        source = await recall(stage, await stage.again(scene))
        assert "walnut" in source
        assert "cherry" not in source
