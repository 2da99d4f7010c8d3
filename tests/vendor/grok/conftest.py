"""The real Grok without a network: its own home, an invalid key, and the scripted model as two models of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vendor.catalog.fixtures import cli, harness, up
from tests.vendor.catalog.profile import MODEL, OTHER_MODEL, Profile
from tests.vendor.pins import GROK

__all__ = ["cli", "harness", "up"]

_CONFIG = """
[cli]
auto_update = false
use_leader = false
[models]
default = "fake"
max_retries = 0
[features]
telemetry = false
"""
_MODEL = """
[model.{name}]
model = "{model}"
base_url = "{url}/v1"
name = "{name}"
api_key = "x"
api_backend = "chat_completions"
context_window = 100000
supports_reasoning_effort = true
reasoning_effort = "low"
"""


def _prepare(home: Path, url: str) -> dict[str, str]:
    models = (
        _MODEL.format(name=name, model=model, url=url)
        for name, model in (("fake", MODEL), ("other", OTHER_MODEL))
    )
    folder = home / ".grok"
    folder.mkdir()
    (folder / "config.toml").write_text("".join([_CONFIG, *models]))
    return {"XAI_API_KEY": "x", "GROK_DISABLE_AUTOUPDATER": "1", "GROK_TELEMETRY_ENABLED": "0"}


PROFILE = Profile(
    name="grok", pin=GROK, prepare=_prepare, models=("fake", "other"),
    efforts=("low", "medium", "high", "xhigh"), denied_turn_goes_on=False, names_kinds=False,
    fails_at_once=frozenset({400, 401, 429}), mcp_tool="echo__shout",
)  # fmt: skip


@pytest.fixture
def profile() -> Profile:
    return PROFILE
