"""The fixtures of a CLI's tests. Its conftest.py adds the fixture `profile`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from farsteer.agents.base import Adapter
from farsteer.agents.conformance.harness import Harness, Prompts, RecordedLaunch
from farsteer.agents.registry import AgentRegistry
from farsteer.core.events import AgentMessage
from tests.support.model import ScriptedModel
from tests.support.node import NODE
from tests.vendor.catalog.profile import Profile
from tests.vendor.conftest import required
from tests.vendor.up import Up

STEP_TIMEOUT = 60.0
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture
def cli(profile: Profile, model: ScriptedModel, home: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Install the pinned version as the machine's own, with a configuration for the scripted model."""
    program = required(profile.pin)
    variables = profile.prepare(home.parent, model.url)
    for name, value in {
        "PATH": f"{program.parent}:{NODE.parent}:/usr/local/bin:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "NO_PROXY": "127.0.0.1",
        **variables,
    }.items():
        monkeypatch.setenv(name, value)
    for name in _PROXIES:
        monkeypatch.delenv(name, raising=False)
    return profile


def adapter_of(profile: Profile, home: Path) -> Adapter:
    return AgentRegistry(home).adapter(profile.name)


@pytest.fixture
async def harness(cli: Profile, home: Path, tmp_path: Path) -> AsyncIterator[Harness]:
    """Where launches are played; at the end each is stopped and all it said is held to the rules."""
    harness = Harness(adapter_of(cli, home), Prompts(answer="", long=""), tmp_path, STEP_TIMEOUT)
    yield harness
    await harness.close()


@pytest.fixture
def up(cli: Profile, tmp_path: Path) -> Up:
    desk = tmp_path / "desk"
    desk.mkdir()
    return Up(cli.name, desk.resolve(), tmp_path / "up.log", cli.pin.name)


async def model_history(agent: RecordedLaunch) -> list[str]:
    """Return the text of each message that the model is shown."""
    return [head for _, head in (await _told(agent, "history"))["history"]]


async def model_info(agent: RecordedLaunch) -> Mapping[str, object]:
    """Return the model, effort and number of images that the model is asked with."""
    return await _told(agent, "info")


async def _told(agent: RecordedLaunch, what: str) -> dict[str, list[list[str]]]:
    before = len(agent.events_of(AgentMessage))
    await agent.run_turn(f"[[new]][[{what}]]")
    return json.loads("".join(event.text for event in agent.events_of(AgentMessage)[before:]))
