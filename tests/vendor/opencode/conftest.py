"""The real opencode without a network: its own home, and the scripted model as its only provider."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vendor.catalog.fixtures import cli, harness, up
from tests.vendor.catalog.profile import MODEL, OTHER_MODEL, Profile
from tests.vendor.pins import OPENCODE

__all__ = ["cli", "harness", "up"]


def _prepare(home: Path, url: str) -> dict[str, str]:
    about = {
        "tool_call": True,
        "reasoning": True,
        "attachment": True,
        "limit": {"context": 100_000, "output": 8_000},
    }
    vision = {"modalities": {"input": ["text", "image"], "output": ["text"]}}
    provider = {
        "npm": "@ai-sdk/openai-compatible", "name": "Scripted", "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
        "models": {name: {"name": name, **about, **vision} for name in (MODEL, OTHER_MODEL)},
    }  # fmt: skip
    config = {
        "autoupdate": False, "share": "disabled", "enabled_providers": ["fake"], "provider": {"fake": provider},
        "model": f"fake/{MODEL}", "small_model": f"fake/{MODEL}",
    }  # fmt: skip
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(config))
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }


PROFILE = Profile(
    name="opencode", pin=OPENCODE, prepare=_prepare, models=(f"fake/{MODEL}", f"fake/{OTHER_MODEL}"),
    efforts=("low", "medium", "high"), denied_turn_goes_on=False, mcp_tool="echo_shout",
)  # fmt: skip


@pytest.fixture
def profile() -> Profile:
    return PROFILE
