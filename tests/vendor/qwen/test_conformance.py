"""The adapter passes the conformance suite with the real Qwen Code."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.base import Adapter
from farsteer.agents.conformance import AdapterConformance, Prompts
from tests.vendor.catalog.fixtures import STEP_TIMEOUT, adapter_of
from tests.vendor.catalog.profile import Profile

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]

_TOOL = "[[new]][[bash:sh -c 'echo hello > made.txt']]"


class TestQwen(AdapterConformance):
    prompts = Prompts(
        answer="[[new]][[think:hm]][[say:hello there]]", long="[[new]][[say:I begin. ]][[hang]]", tool=_TOOL,
        tool_file="made.txt", shell="[[new]][[bash:{command}]]", remember="[[new]]remember {word}", recall="[[new]][[history]]",
        thinks="[[new]][[think:hm]][[say:well]]", transcript="[[new]][[history]]",
    )  # fmt: skip
    step_timeout = STEP_TIMEOUT
    turn_count = 10

    @pytest.fixture(autouse=True)
    def _machine(self, cli: Profile, home: Path) -> None:
        """Contracts take no fixtures of ours."""
        self._profile, self._home = cli, home

    def adapter(self) -> Adapter:
        return adapter_of(self._profile, self._home)
