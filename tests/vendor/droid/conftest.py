"""The real Droid without a network: its own home, an invalid key, and the scripted model behind all its models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.conformance.harness import Harness, Prompts, RecordedLaunch
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.core.events import AgentMessage
from tests.support.model import ScriptedModel
from tests.vendor.conftest import required
from tests.vendor.pins import DROID, DROID_OLD, Pin

FAKE = "custom:Fake-0"
OTHER = {DROID.version: "custom:Other-1", DROID_OLD.version: "custom:Other-0"}
"""Our models. Droid appends a number to the name: the position in the list, in older versions among equal names."""
SONNET = "claude-sonnet-4-6"
"""A model that both versions have built in, with images and reasoning efforts; the scripted model serves it too."""
STEP_TIMEOUT = 60.0

only_new = pytest.mark.parametrize("pin", [DROID], ids=[DROID.version], indirect=True)
only_old = pytest.mark.parametrize("pin", [DROID_OLD], ids=[DROID_OLD.version], indirect=True)


@pytest.fixture(params=[DROID, DROID_OLD], ids=[DROID.version, DROID_OLD.version])
def pin(request: pytest.FixtureRequest) -> Pin:
    return request.param


@pytest.fixture
def droid(pin: Pin, model: ScriptedModel, home: Path, monkeypatch: pytest.MonkeyPatch) -> Pin:
    """Install this version as the machine's `droid`."""
    program = required(pin)
    custom = [
        {
            "model": name, "displayName": title, "baseUrl": f"{model.url}/v1", "apiKey": "x",
            "provider": "generic-chat-completion-api", "maxOutputTokens": 4096,
        }
        for name, title in (("fake-1", "Fake"), ("fake-2", "Other"))
    ]  # fmt: skip
    settings = {"customModels": custom, "sessionDefaultSettings": {"model": FAKE}, "cloudSessionSync": False}
    folder = home.parent / ".factory"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings))
    for name, value in {
        "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "FACTORY_API_KEY": "fk-test",
        "FACTORY_API_BASE_URL": model.url,
        "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
    }.items():
        monkeypatch.setenv(name, value)
    for name in (
        "DROID_EXECUTABLE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    return pin


@pytest.fixture
async def harness(droid: Pin, tmp_path: Path) -> AsyncIterator[Harness]:
    """Where launches are played; at the end each is stopped and all it said is held to the rules."""
    harness = Harness(DroidAdapter(), Prompts(answer="", long=""), tmp_path, STEP_TIMEOUT)
    yield harness
    await harness.close()


async def call_droid(agent: RecordedLaunch, method: str, params: dict[str, Any]) -> None:
    """Call a method of Droid's that the adapter itself does not use."""
    assert isinstance(agent.launch, DroidLaunch)
    await agent.launch._rpc.call(method, params, 30.0, optional=True)


async def model_history(agent: RecordedLaunch) -> list[list[str]]:
    """Return role and text of each message that the model is shown."""
    await agent.run_turn("[[history]]")
    return json.loads(agent.events_of(AgentMessage)[-1].text)["history"]
