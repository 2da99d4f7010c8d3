"""The adapter passes the conformance suite with the simulated agent, in both forms of settings."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from farsteer.agents.acp.adapter import AcpAdapter
from farsteer.agents.conformance import AdapterConformance, Prompts
from tests.support.acp_simulator import DEFINITION, install

pytestmark = pytest.mark.slow


class TestAcp(AdapterConformance):
    prompts = Prompts(
        answer="think hm", long="work", tool="write made.txt hello", tool_file="made.txt",
        two_tools="write two a.txt b.txt", two_files=("a.txt", "b.txt"), question="ask", plan="plan",
        thinks="think hm", transcript="transcript", overwrite="write made.txt {text}", shell="run {command}",
        remember="The word is {word}.", recall="recall", crash="crash", crash_mid="crash mid", stubborn="stubborn",
        loosen="loosen", ends_early="end early", repeats="repeat", unknown="unknown", garbage="garbage",
    )  # fmt: skip
    turn_count = 100
    faults: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture(autouse=True)
    def _machine(self, home: Path, tmp_path: Path) -> None:
        """Contracts take no fixtures of ours."""
        self._executable = install(tmp_path, *self.faults)

    def adapter(self) -> AcpAdapter:
        return AcpAdapter("simulator", DEFINITION, self._executable)


class TestOlderAcp(TestAcp):
    """Modes and models instead of options, messages without ids, and sessions that can only be loaded."""

    faults = ("old_settings", "no_message_ids", "no_resume", "noise")
