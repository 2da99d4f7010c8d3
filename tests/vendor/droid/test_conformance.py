"""The adapter passes the conformance suite with the real Droid."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance import AdapterConformance, Prompts
from farsteer.agents.droid.adapter import DroidAdapter
from tests.vendor.droid.conftest import only_new, only_old
from tests.vendor.pins import Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


class DroidContracts(AdapterConformance):
    prompts = Prompts(
        answer="[[think:hm]][[say:hello there]]", long="[[say:I begin. ]][[hang]]", tool="[[write:made.txt:hello]]",
        tool_file="made.txt", question="[[ask:Which color?:Red|Blue]]", plan="[[plan:# The plan]]",
        shell="[[bash:{command}]]", remember="remember {word}", recall="[[history]]", thinks="[[think:hm]][[say:well]]",
        transcript="[[history]]", overwrite="[[write:made.txt:{text}]]",
    )  # fmt: skip
    step_timeout = 45.0
    turn_count = 10

    @pytest.fixture(autouse=True)
    def _machine(self, droid: Pin) -> None:
        """Contracts take no fixtures of ours."""
        self._version = droid.version

    def adapter(self) -> DroidAdapter:
        return DroidAdapter(version=self._version)


@only_new
class TestDroid(DroidContracts):
    pass


@only_old
class TestOldDroid(DroidContracts):
    """It has no working rewind, so the contracts of rewind and fork are skipped."""
