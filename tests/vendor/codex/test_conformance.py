"""The adapter passes the conformance suite with the real Codex."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.codex.adapter import CodexAdapter
from farsteer.agents.conformance import AdapterConformance, Prompts

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


class TestCodex(AdapterConformance):
    prompts = Prompts(
        answer="[[think:hm]][[say:hello there]]", long="[[say:I begin. ]][[hang]]", tool="[[write:made.txt:hello]]",
        tool_file="made.txt", shell="[[bash:{command}]]", remember="remember {word}", recall="[[history]]",
        thinks="[[think:hm]][[say:well]]", transcript="[[history]]", overwrite="[[write:made.txt:{text}]]",
    )  # fmt: skip
    step_timeout = 45.0
    turn_count = 10

    @pytest.fixture(autouse=True)
    def _machine(self, codex: Path) -> None:
        """Contracts take no fixtures of ours."""

    def adapter(self) -> CodexAdapter:
        return CodexAdapter()
