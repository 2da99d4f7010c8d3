"""The adapter passes the conformance suite with the simulated Claude Code."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.claude.adapter import ClaudeAdapter
from farsteer.agents.conformance import AdapterConformance, Prompts
from tests.support.claude_simulator import install

pytestmark = pytest.mark.slow


class TestClaude(AdapterConformance):
    prompts = Prompts(
        answer="think hm", long="work", tool="write made.txt hello", tool_file="made.txt",
        two_tools="write two a.txt b.txt", two_files=("a.txt", "b.txt"), question="ask", plan="plan",
        thinks="think hm", transcript="transcript", overwrite="write made.txt {text}", shell="run {command}",
        remember="The word is {word}.", recall="recall", loosen="loosen", crash="crash", crash_mid="crash mid",
        stubborn="stubborn", ends_early="end early", repeats="repeat", unknown="unknown", garbage="garbage",
    )  # fmt: skip
    turn_count = 100

    @pytest.fixture(autouse=True)
    def _machine(self, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Contracts take no fixtures of ours."""
        monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
        monkeypatch.delenv("CLAUDE_EXECUTABLE", raising=False)
        self._executable = install(tmp_path)

    def adapter(self) -> ClaudeAdapter:
        return ClaudeAdapter(self._executable)
