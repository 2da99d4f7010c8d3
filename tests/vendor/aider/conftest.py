"""The real aider without a network: its own home, and the scripted model behind all its models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.aider.adapter import AiderAdapter
from farsteer.agents.base import ApprovalAsked, TurnEnded
from farsteer.agents.conformance.harness import Harness, Prompts, RecordedLaunch
from farsteer.core.approvals import Outcome
from farsteer.core.events import AgentMessage
from tests.support.model import ScriptedModel
from tests.vendor.aider import installation
from tests.vendor.install import in_ci

MODEL = "openai/gpt-4.1-plain"
"""aider takes it for a model that answers with search-and-replace blocks; `plain` is for the scripted model."""
EFFORT_MODEL = "openai/o3-mini-plain"
"""A model that aider gives a reasoning effort."""
STEP_TIMEOUT = 45.0


def edit(path: str, old: str, new: str) -> str:
    """Return a script with which the model edits a file. `old` is empty for a new one."""
    return f"[[say:Here:\n\n{path}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}\n>>>>>>> REPLACE\n```\n]]"


def shell(command: str) -> str:
    """Return a script with which the model suggests a command."""
    return f"[[say:Run this:\n\n```bash\n{command}\n```\n]]"


def require_aider() -> Path:
    """Return the pinned aider. If it is missing, the test fails in CI and is skipped elsewhere."""
    if not installation.is_installed():
        missing = f"aider {installation.version()} is not installed: run make test-agents"
        if in_ci():
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return installation.program()


@pytest.fixture
def aider(model: ScriptedModel, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install aider as the machine's `aider` and return its program."""
    program = require_aider()
    for name, value in {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "AIDER_EXECUTABLE": str(program), "OPENAI_API_KEY": "x",
        "OPENAI_API_BASE": f"{model.url}/v1", "AIDER_MODEL": MODEL, "NO_PROXY": "127.0.0.1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        # Whatever aider downloads fails at once, and is seen.
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    return program


@pytest.fixture
async def harness(aider: Path, tmp_path: Path) -> AsyncIterator[Harness]:
    """Where launches are played; at the end each is stopped and all it said is held to the rules."""
    harness = Harness(AiderAdapter(), Prompts(answer="", long=""), tmp_path, STEP_TIMEOUT)
    yield harness
    await harness.close()


async def model_history(agent: RecordedLaunch) -> list[list[str]]:
    """Return role and text of each message that the model is shown."""
    await agent.run_turn("[[history]]")
    return json.loads(agent.events_of(AgentMessage)[-1].text)["history"]


async def model_info(agent: RecordedLaunch) -> dict[str, Any]:
    """Return the model, effort and number of images that the model is asked with."""
    await agent.run_turn("[[info]]")
    return json.loads(agent.events_of(AgentMessage)[-1].text)


async def answer_turn(agent: RecordedLaunch, script: str, outcome: Outcome) -> TurnEnded:
    """Run a turn that asks one thing, and answer it."""
    count = len(agent.outputs_of(ApprovalAsked))
    turn_id = await agent.send(script)
    await agent.answer((await agent.wait_for_approvals(count + 1))[-1], outcome)
    return await agent.wait_for_end(turn_id)
