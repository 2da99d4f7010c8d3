"""The adapter passes the conformance suite with the simulated Codex."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.codex.adapter import CodexAdapter
from farsteer.agents.conformance import AdapterConformance, Prompts
from tests.support.codex_simulator import install

pytestmark = pytest.mark.slow


class TestCodex(AdapterConformance):
    prompts = Prompts(
        answer="think hm", long="work", tool="write made.txt hello", tool_file="made.txt",
        two_tools="write two a.txt b.txt", two_files=("a.txt", "b.txt"), question="ask", thinks="think hm",
        transcript="transcript", overwrite="write made.txt {text}", shell="run {command}",
        remember="The word is {word}.", recall="recall", crash="crash", crash_mid="crash mid", stubborn="stubborn",
        ends_early="end early", repeats="repeat", unknown="unknown", garbage="garbage",
    )  # fmt: skip
    turn_count = 100

    @pytest.fixture(autouse=True)
    def _machine(self, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Contracts take no fixtures of ours."""
        monkeypatch.delenv("CODEX_HOME", raising=False)
        self._executable = install(tmp_path)

    def adapter(self) -> CodexAdapter:
        return CodexAdapter(self._executable)
