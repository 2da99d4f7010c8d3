"""The real Claude Code without a network: its own home, an invalid key, and the scripted model behind all models."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.agents.claude.adapter import ClaudeAdapter
from farsteer.agents.conformance.harness import Harness, Prompts, RecordedLaunch
from farsteer.core.events import AgentMessage
from farsteer.core.mcp import McpServer
from tests.support.model import ScriptedModel
from tests.vendor.conftest import required
from tests.vendor.pins import CLAUDE, Pin

STEP_TIMEOUT = 60.0
ECHO_SERVER = McpServer(
    name="echo", command=sys.executable, args=(str(Path(__file__).parents[1] / "droid" / "echo_server.py"),)
)


@pytest.fixture
def claude(model: ScriptedModel, home: Path, monkeypatch: pytest.MonkeyPatch) -> Pin:
    """Install the pinned version as the machine's `claude`."""
    program = required(CLAUDE)
    for name, value in {
        "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "ANTHROPIC_API_KEY": "sk-test",
        "ANTHROPIC_BASE_URL": model.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    for name in (
        "CLAUDE_EXECUTABLE",
        "CLAUDE_CONFIG_DIR",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_MODEL",
        "CLAUDECODE",
    ):
        monkeypatch.delenv(name, raising=False)
    return CLAUDE


@pytest.fixture
async def harness(claude: Pin, tmp_path: Path) -> AsyncIterator[Harness]:
    """Where launches are played; at the end each is stopped and all it said is held to the rules."""
    harness = Harness(ClaudeAdapter(), Prompts(answer="", long=""), tmp_path, STEP_TIMEOUT)
    yield harness
    await harness.close()


async def model_history(agent: RecordedLaunch) -> list[list[str]]:
    """Return role and text of each message that the model is shown."""
    await agent.run_turn("[[history]]")
    return json.loads(agent.events_of(AgentMessage)[-1].text)["history"]
