"""A provider as an agent: its key, its models, and whose sessions it goes on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.base import LaunchPlan, Takeover
from farsteer.agents.claude.adapter import ClaudeAdapter
from farsteer.agents.codex.adapter import CodexAdapter
from farsteer.agents.conformance.harness import RecordingSink
from farsteer.agents.process.environment import scrub_environment
from farsteer.agents.providers.adapter import ProviderAdapter
from farsteer.agents.providers.keys import store_key
from farsteer.agents.providers.provider import load_provider
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.launch import LaunchDecision, LaunchMode


def adapter(home: Path, name: str = "glm") -> ProviderAdapter:
    return ProviderAdapter(name, load_provider(home, name), home, "/nonexistent/claude")


def test_thoughts_that_another_signed_are_a_boundary(tmp_path: Path) -> None:
    claude, glm, kimi = ClaudeAdapter(), adapter(tmp_path), adapter(tmp_path, "kimi")
    assert claude.takeover(ClaudeAdapter()) is Takeover.RESUMED
    assert glm.takeover(kimi) is Takeover.RESUMED
    assert glm.takeover(claude) is Takeover.ANEW
    assert claude.takeover(glm) is Takeover.ANEW
    assert glm.takeover(CodexAdapter()) is Takeover.REFUSED


def test_nothing_that_the_environment_says_about_models_is_passed_on(tmp_path: Path) -> None:
    machine = {
        "ANTHROPIC_API_KEY": "owner", "ANTHROPIC_CUSTOM_HEADERS": "owner", "CLAUDE_CODE_OAUTH_TOKEN": "owner",
        "CLAUDE_CODE_USE_BEDROCK": "1", "AWS_SECRET_ACCESS_KEY": "owner", "MOONSHOT_API_KEY": "of another provider",
        "CLAUDE_CONFIG_DIR": "/config", "CLAUDE_CODE_MAX_RETRIES": "1",
    }  # fmt: skip
    glm = adapter(tmp_path)
    found = scrub_environment(machine, glm.environment_names)
    assert {name: found[name] for name in machine if name in found} == {
        "CLAUDE_CONFIG_DIR": "/config",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }


async def test_without_a_key_the_start_says_how_to_store_one(tmp_path: Path) -> None:
    decision = LaunchDecision(start=LaunchMode.CREATE, native_id=None)
    plan = LaunchPlan(session_id="s", directory=str(tmp_path), generation=1, decision=decision)
    with pytest.raises(AgentError, match="farsteer agents login glm") as caught:
        await adapter(tmp_path).start(plan, RecordingSink())
    assert caught.value.code is ErrorCode.AGENT_START_FAILED
    store_key(tmp_path, "glm", "a-key")
    with pytest.raises(AgentError) as caught:
        await adapter(tmp_path).start(plan, RecordingSink())
    assert caught.value.code is ErrorCode.AGENT_NOT_INSTALLED, "the key is there, Claude Code is not"


async def test_the_models_are_those_of_the_provider(tmp_path: Path) -> None:
    info = await adapter(tmp_path, "kimi").detect()
    assert (info.name, info.models) == ("kimi", ("kimi-k2.7-code", "kimi-k2.6"))
    assert not info.capabilities.import_history, "conversations are imported as those of claude"
