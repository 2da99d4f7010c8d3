"""Model providers: the real Claude Code reaches the provider with its key, and nothing else of the owner's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from farsteer.agents.conformance.harness import Harness, Prompts
from farsteer.agents.providers.adapter import ProviderAdapter
from farsteer.agents.providers.keys import store_key
from farsteer.agents.providers.provider import load_provider
from farsteer.core.approvals import Outcome
from farsteer.core.events import TurnEndReason
from farsteer.core.modes import PermissionMode
from tests.support.model import ScriptedModel
from tests.vendor.claude.conftest import STEP_TIMEOUT
from tests.vendor.pins import Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

OWNERS = (
    "sk-owner",
    "oauth-of-the-owner",
    "token-of-the-owner",
    "helper-of-the-owner",
    "header-of-the-owner",
)
"""Credentials of the machine's owner, none of which a provider may see."""


@pytest.fixture(params=["authorization", "x-api-key"])
async def provider(
    request: pytest.FixtureRequest,
    claude: Pin,
    model: ScriptedModel,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Harness]:
    """A provider at the scripted model, on a machine whose owner uses Claude Code in every other way."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", OWNERS[0])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", OWNERS[1])
    settings = Path.home() / ".claude"
    settings.mkdir(exist_ok=True)
    (settings / ".credentials.json").write_text(
        json.dumps(
            {
                "claudeAiOauth": {
                    "accessToken": OWNERS[1],
                    "refreshToken": "r",
                    "expiresAt": 4102444800000,
                    "scopes": ["user:inference"],
                }
            }
        )
    )
    variables = {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_AUTH_TOKEN": OWNERS[2],
        "ANTHROPIC_CUSTOM_HEADERS": f"X-Secret: {OWNERS[4]}",
        "ANTHROPIC_MODEL": "claude-of-the-owner",
    }
    owners = {"env": variables, "apiKeyHelper": f"echo {OWNERS[3]}", "model": "claude-opus-4-1"}
    (settings / "settings.json").write_text(json.dumps(owners))
    (home / "providers").mkdir(parents=True, exist_ok=True)
    (home / "providers" / "mine.toml").write_text(
        f'title = "Mine"\nbase_url = "{model.url}"\nkey_variable = "MINE_KEY"\nmodel = "mine-large"\n'
        f'small_model = "mine-small"\nmodel_option = "openrouterModel"\nkey_header = "{request.param}"\n'
    )
    adapter = ProviderAdapter("mine", load_provider(home, "mine"), home)
    harness = Harness(adapter, Prompts(answer="", long=""), tmp_path, STEP_TIMEOUT)
    project = harness.directory / ".claude"
    project.mkdir()
    for name in ("settings.json", "settings.local.json"):
        (project / name).write_text(json.dumps(owners))
    trusted = {harness.real_directory: {"hasTrustDialogAccepted": True}}
    (Path.home() / ".claude.json").write_text(json.dumps({"projects": trusted, "primaryApiKey": OWNERS[0]}))
    yield harness
    await harness.close()


def check_requests(model: ScriptedModel, key: str, models: set[str]) -> None:
    """Check that every request has this key and no other, and one of these models."""
    assert model.log.seen
    for seen in model.log.seen:
        sent = json.dumps(seen.request.headers)
        assert key in sent
        assert not any(secret in sent for secret in OWNERS)
        assert seen.conversation is None or seen.conversation.model in models


async def test_a_turn_reaches_the_provider_with_its_key_and_no_credential_of_the_owner(
    provider: Harness, model: ScriptedModel, home: Path
) -> None:
    store_key(home, "mine", "key-of-mine")
    agent = await provider.launch(provider.plan(mode=PermissionMode.YOLO))
    task = {
        "description": "look",
        "prompt": "[[bash:touch sub]]",
        "subagent_type": "Explore",
        "model": "haiku",
    }
    ended = await agent.run_turn(f"[[bash:touch made]][[tool:Task:{json.dumps(task)}]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert {"made", "sub"} <= {path.name for path in provider.directory.iterdir()}
    check_requests(model, "key-of-mine", {"mine-large", "mine-small"})


async def test_the_key_of_the_environment_and_the_model_of_the_session_are_used(
    provider: Harness, model: ScriptedModel, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_key(home, "mine", "stored-key")
    monkeypatch.setenv("MINE_KEY", "key-of-the-environment")
    plan = msgspec.structs.replace(provider.plan(), options={"openrouterModel": "chosen/model"})
    agent = await provider.launch(plan)
    assert (await agent.run_turn("hello")).reason is TurnEndReason.END_TURN
    assert model.log.turns[-1].body["model"] == "chosen/model"
    check_requests(model, "key-of-the-environment", {"chosen/model", "mine-small"})
    await agent.launch.set_model("mine-small")
    await agent.run_turn("hello")
    assert model.log.turns[-1].body["model"] == "mine-small"


async def test_a_permission_is_asked_for(provider: Harness, home: Path) -> None:
    store_key(home, "mine", "key-of-mine")
    agent = await provider.launch()
    turn_id = await agent.send("[[bash:touch made]]")
    (approval,) = await agent.wait_for_approvals()
    await agent.answer(approval, Outcome.DENIED)
    await agent.wait_for_end(turn_id)
    assert not (provider.directory / "made").exists()
