"""The adapter passes the conformance suite with each simulated version, and with one that repeats itself.

The older versions are played in `make test-faults`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.conformance import AdapterConformance, Prompts
from farsteer.agents.conformance.approvals import ApprovalContracts
from farsteer.agents.conformance.suite import ConformanceSuite
from farsteer.agents.conformance.turns import TurnContracts
from farsteer.agents.droid.adapter import DroidAdapter
from tests.support.droid_simulator import install

pytestmark = pytest.mark.slow


class Simulated(ConformanceSuite):
    profile = ""
    options: tuple[str, ...] = ()
    prompts = Prompts(
        answer="think hm", long="work", tool="write made.txt hello", tool_file="made.txt", question="ask", plan="plan",
        overwrite="write made.txt {text}", thinks="think hm", transcript="transcript",
        shell="run {command}", remember="The word is {word}.", recall="recall", crash="crash", crash_mid="crash mid",
        stubborn="stubborn", loosen="loosen",
        ends_early="end early", repeats="repeat", unknown="unknown", garbage="garbage",
    )  # fmt: skip
    turn_count = 20

    @pytest.fixture(autouse=True)
    def _machine(self, home: Path, tmp_path: Path) -> None:
        """Contracts take no fixtures of ours."""
        self._executable = install(tmp_path, self.profile, *self.options)

    def adapter(self) -> DroidAdapter:
        return DroidAdapter(self._executable, f"{self.profile}.0")


@pytest.mark.faults
class TestDroid036(Simulated, AdapterConformance):
    profile = "0.36"


@pytest.mark.faults
class TestDroid057(Simulated, AdapterConformance):
    profile = "0.57"


@pytest.mark.faults
class TestDroid099(Simulated, AdapterConformance):
    profile = "0.99"


class TestDroid0215(Simulated, AdapterConformance):
    profile = "0.215"
    turn_count = 100


class TestRepeatingDroid(Simulated, TurnContracts, ApprovalContracts):
    profile = "0.215"
    options = (
        "--misbehave", "duplicates", "--misbehave", "double-response", "--misbehave", "premature-idle",
        "--misbehave", "strange-keys",
    )  # fmt: skip
