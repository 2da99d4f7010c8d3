"""The adapter passes the conformance suite with the real aider."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.aider.adapter import AiderAdapter
from farsteer.agents.conformance import AdapterConformance, Prompts
from tests.vendor.aider.conftest import edit, shell

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


class TestAider(AdapterConformance):
    prompts = Prompts(
        answer="[[think:hm]][[say:hello there]]", long="[[say:I begin. ]][[hang]]", tool=edit("made.txt", "", "hello"),
        tool_file="made.txt", shell=shell("{command}"), remember="[[say:remember {word}]]", recall="[[history]]",
        thinks="[[think:hm]][[say:well]]", transcript="[[history]]",
    )  # fmt: skip
    step_timeout = 45.0
    turn_count = 10

    @pytest.fixture(autouse=True)
    def _machine(self, aider: Path) -> None:
        """Contracts take no fixtures of ours."""

    def adapter(self) -> AiderAdapter:
        return AiderAdapter()
