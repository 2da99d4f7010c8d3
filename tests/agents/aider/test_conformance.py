"""The adapter and its worker pass the conformance suite with the simulated aider."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.aider.adapter import AiderAdapter
from farsteer.agents.conformance import AdapterConformance, Prompts
from tests.support.aider_simulator import install

pytestmark = pytest.mark.slow


class TestAider(AdapterConformance):
    prompts = Prompts(
        answer="think hm", long="work", tool="write made.txt hello", tool_file="made.txt", shell="run {command}",
        remember="The word is {word}.", recall="recall", thinks="think hm", transcript="transcript", crash="crash",
        crash_mid="crash mid", stubborn="stubborn", ends_early="end early", repeats="repeat", unknown="unknown",
        garbage="garbage",
    )  # fmt: skip
    turn_count = 100

    @pytest.fixture(autouse=True)
    def _machine(self, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Contracts take no fixtures of ours."""
        monkeypatch.setenv("AIDER_MODEL", "sim")
        self._executable = install(tmp_path)

    def adapter(self) -> AiderAdapter:
        return AiderAdapter(self._executable)
