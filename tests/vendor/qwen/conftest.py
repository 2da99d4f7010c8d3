"""The real Qwen Code without a network: its own home, an invalid key, and the scripted model behind two names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vendor.catalog.fixtures import cli, harness, up
from tests.vendor.catalog.profile import MODEL, OTHER_MODEL, Profile
from tests.vendor.pins import QWEN

__all__ = ["cli", "harness", "up"]


def _prepare(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "model": {"name": MODEL},
        "modelProviders": {
            "openai": [
                {"id": name, "name": name, "baseUrl": f"{url}/v1", "envKey": "OPENAI_API_KEY"}
                for name in (MODEL, OTHER_MODEL)
            ]
        },
    }
    folder = home / ".qwen"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings))
    return {
        "OPENAI_API_KEY": "x",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_MODEL": MODEL,
        "QWEN_CODE_NO_RELAUNCH": "true",
    }


PROFILE = Profile(
    name="qwen", pin=QWEN, prepare=_prepare, models=(f"{MODEL}(openai)", f"{OTHER_MODEL}(openai)"),
    denied_turn_goes_on=False,
)  # fmt: skip


@pytest.fixture
def profile() -> Profile:
    return PROFILE
