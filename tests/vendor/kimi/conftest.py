"""The real Kimi Code without a network: its own home, and the scripted model as its only provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vendor.catalog.fixtures import cli, harness, up
from tests.vendor.catalog.profile import MODEL, OTHER_MODEL, Profile
from tests.vendor.pins import KIMI

__all__ = ["cli", "harness", "up"]

_CONFIG = """
default_model = "fake"
telemetry = false
[loop_control]
max_attempts_per_step = 1
[providers.fake]
type = "openai"
base_url = "{url}/v1"
api_key = "x"
"""
_MODEL = """
[models.{name}]
provider = "fake"
model = "{model}"
max_context_size = 100000
capabilities = ["image_in", "thinking"]
"""


def _prepare(home: Path, url: str) -> dict[str, str]:
    models = (
        _MODEL.format(name=name, model=model) for name, model in (("fake", MODEL), ("other", OTHER_MODEL))
    )
    folder = home / ".kimi-code"
    folder.mkdir()
    (folder / "config.toml").write_text("".join([_CONFIG.format(url=url), *models]))
    return {
        "KIMI_CODE_HOME": str(folder),
        "KIMI_CODE_NO_AUTO_UPDATE": "1",
        "KIMI_DISABLE_TELEMETRY": "1",
    }


PROFILE = Profile(
    name="kimi-code", pin=KIMI, prepare=_prepare, models=("fake", "other"), tokens=False,
    fails_at_once=frozenset({400, 401, 429, 500}), tells_errors=False, keeps_history_at_once=False,
)  # fmt: skip


@pytest.fixture
def profile() -> Profile:
    return PROFILE
