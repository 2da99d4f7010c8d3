"""The real Codex without a network: its own home, and the scripted model behind all its models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from farsteer.agents.base import ApprovalAsked, TurnEnded
from farsteer.agents.codex.adapter import CodexAdapter
from farsteer.agents.conformance.harness import Harness, Prompts, RecordedLaunch
from farsteer.core.approvals import Outcome
from farsteer.core.events import AgentMessage
from tests.support.model import ScriptedModel
from tests.vendor.conftest import required
from tests.vendor.pins import CODEX

MODEL = "gpt-5.5"
"""A model that Codex knows and offers `apply_patch` to as a tool."""
CODE_MODE_MODEL = "gpt-6-sol"
"""A model that gets one tool, which takes JavaScript that calls the others."""
STEP_TIMEOUT = 45.0
QUESTION = {
    "questions": [
        {
            "id": "q", "header": "Color", "question": "Which color?",
            "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
        }
    ]
}  # fmt: skip
"""The arguments of Codex's tool `request_user_input`."""
CONFIG = """
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 1
stream_max_retries = 1
[analytics]
enabled = false
"""


@pytest.fixture
def codex(model: ScriptedModel, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install Codex as the machine's `codex` and return its home."""
    program = required(CODEX)
    folder = home.parent / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG.format(model=MODEL, url=model.url))
    for name, value in {
        "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "OPENAI_API_KEY": "x",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("CODEX_HOME", "CODEX_EXECUTABLE", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory that Codex's sandbox does not let it write to. It may write below /tmp, where tests are."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
async def harness(codex: Path, tmp_path: Path) -> AsyncIterator[Harness]:
    """Where launches are played; at the end each is stopped and all it said is held to the rules."""
    harness = Harness(CodexAdapter(), Prompts(answer="", long=""), tmp_path, STEP_TIMEOUT)
    yield harness
    await harness.close()


async def model_history(agent: RecordedLaunch) -> list[list[str]]:
    """Return role and text of each message that the model is shown."""
    await agent.run_turn("[[history]]")
    return json.loads(agent.events_of(AgentMessage)[-1].text)["history"]


async def model_info(agent: RecordedLaunch) -> dict[str, object]:
    """Return the model, effort and number of tools that the model is asked with."""
    await agent.run_turn("[[info]]")
    return json.loads(agent.events_of(AgentMessage)[-1].text)


async def answer_turn(
    agent: RecordedLaunch, script: str, outcome: Outcome, answers: dict[str, list[str]] | None = None
) -> TurnEnded:
    """Run a turn that asks one thing, and answer it."""
    count = len(agent.outputs_of(ApprovalAsked))
    turn_id = await agent.send(script)
    await agent.answer((await agent.wait_for_approvals(count + 1))[-1], outcome, answers)
    return await agent.wait_for_end(turn_id)
