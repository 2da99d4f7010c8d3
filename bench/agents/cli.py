"""The pinned CLIs, and a home in which one of them uses the scripted model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.child import Child
from bench.peers.base import Unavailable, clean_environment
from tests.vendor.install import program
from tests.vendor.pins import CLAUDE, CODEX, Pin

ROOT = Path(__file__).parents[2]
CODEX_CONFIG = """
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
requires_openai_auth = false
supports_websockets = false
[analytics]
enabled = false
"""


@dataclass(frozen=True, slots=True)
class Cli:
    pin: Pin

    @property
    def name(self) -> str:
        return self.pin.name

    def program(self) -> Path:
        path = program(self.pin)
        if not path.exists():
            raise Unavailable(f"{self.name} {self.pin.version} is not installed: run make test-agents")
        return path

    def environment(self, home: Path, url: str) -> dict[str, str]:
        """Prepare a home whose agent uses the scripted model, and return its environment."""
        (home / ".codex").mkdir(exist_ok=True)
        (home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(url=url))
        clean = clean_environment(home)
        return {
            **clean, "PATH": f"{self.program().parent}:{clean['PATH']}", "OPENAI_API_KEY": "x",
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "x", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip


CLIS = (Cli(CLAUDE), Cli(CODEX))


@contextmanager
def scripted_model() -> Iterator[str]:
    """Run the scripted model in its own process, and give its address."""
    argv = [sys.executable, "-m", "tests.support.model"]
    with Child(argv, {**clean_environment(ROOT), "PYTHONPATH": str(ROOT)}, ROOT, "listening on ") as model:
        yield model.ready()[1].removeprefix("listening on ").strip()
