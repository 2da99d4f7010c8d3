"""The adapter passes the conformance suite with the real Claude Code."""

from __future__ import annotations

import pytest

from farsteer.agents.claude.adapter import ClaudeAdapter
from farsteer.agents.conformance import AdapterConformance, Prompts
from tests.vendor.pins import Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

_SUB_AGENT = (
    '[[tool:Task:{{"description":"{0}","prompt":"[[bash:touch {0}]]","subagent_type":"general-purpose",'
    '"run_in_background":false}}]]'
)


class TestClaude(AdapterConformance):
    prompts = Prompts(
        answer="[[think:hm]][[say:hello there]]", long="[[say:I begin. ]][[hang]]", tool="[[write:made.txt:hello]]",
        tool_file="made.txt", question="[[ask:Which color?:Red|Blue]]", plan="[[plan:# The plan]]",
        shell="[[bash:{command}]]", remember="remember {word}", recall="[[history]]", thinks="[[think:hm]][[say:well]]",
        transcript="[[history]]", overwrite="[[write:made.txt:{text}]]",
        two_tools=f"{_SUB_AGENT.format('one')}[[and]]{_SUB_AGENT.format('two')}", two_files=("one", "two"),
    )  # fmt: skip
    step_timeout = 45.0
    turn_count = 10

    @pytest.fixture(autouse=True)
    def _machine(self, claude: Pin) -> None:
        """Contracts take no fixtures of ours."""

    def adapter(self) -> ClaudeAdapter:
        return ClaudeAdapter()
