"""Records a scenario with a real CLI, to write its golden files or to compare it with them."""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path
from urllib.parse import quote

import pytest

from farsteer.agents.conformance.harness import Harness
from tests.support.model import ScriptedModel
from tests.support.wire.agent import WireAgent
from tests.support.wire.names import StableNames
from tests.support.wire.recording import Exchange, Recording, write_entries
from tests.support.wire.replay import TOP, machine_places, output_kinds
from tests.support.wire.stage import Stage

RECORD_VARIABLE = "RECORD_SCENARIOS"
"""The names of scenarios whose files are written, separated by commas; `*` for all."""


def chosen(agent: WireAgent, checked: tuple[str, ...]) -> list[str]:
    """Return the scenarios to run: those to record, else those that are checked in every run."""
    named = os.environ.get(RECORD_VARIABLE, "")
    if not named:
        return [*checked]
    return [name for name in agent.scenarios if named == "*" or name in named.split(",")]


async def record_or_compare(
    agent: WireAgent, name: str, harness: Harness, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> Recording:
    """Run a scenario. Returns its exchanges as they were."""
    recording = Recording().of(agent.modules, monkeypatch)
    stage = Stage(harness, model.meet, is_real=True)
    await agent.scenarios[name](stage)
    await harness.close()
    names = StableNames(_places(harness, model), agent.dropped)
    exchanges = [
        [names.apply(short) for entry in exchange if (short := agent.shorten(entry)) is not None]
        for exchange in recording.exchanges
    ]
    if os.environ.get(RECORD_VARIABLE):
        write_entries(agent.transcript(name), exchanges)
    else:
        _compare(agent, name, exchanges, stage.lines)
    return recording


def _compare(agent: WireAgent, name: str, exchanges: list[Exchange], lines: list[str]) -> None:
    golden = agent.golden(name).read_text().splitlines()
    different = [
        *unified_diff(
            agent.shape(agent.recorded(name)), agent.shape(exchanges), "stored", "now", lineterm=""
        ),
        *unified_diff(output_kinds(golden), output_kinds(lines), "golden", "now", lineterm=""),
    ]
    hint = "if the CLI has changed, run .venv/bin/python -m tests.vendor.record and read the changes"
    assert not different, "\n".join([hint, *different])


def _places(harness: Harness, model: ScriptedModel) -> dict[str, str]:
    top = harness.directory.parent
    real = {str(path): str(TOP) for path in (top, top.resolve())}
    encoded = {path.replace("/", "-").replace("_", "-"): "-scenario" for path in real}
    quoted = {quote(path, safe=""): quote(str(TOP), safe="") for path in real}
    # opencode names files from the root on, without its slash.
    from_root = {path.removeprefix("/"): str(TOP).removeprefix("/") for path in real}
    cache = {str(Path(folder)): "/bin" for folder in os.environ["PATH"].split(":")[:1]}
    model_places = {model.url: "http://model", f"127.0.0.1:{model.port}": "model"}
    agent_files = {f"/tmp/claude-{os.getuid()}": f"{TOP}/tmp"}
    # Codex names its agents like paths, which must not look like those of a machine.
    agents = {f"/{name}/": "/main/" for name in ("root",)}
    return {
        **agents,
        **real,
        **encoded,
        **quoted,
        **from_root,
        **cache,
        **machine_places(),
        **model_places,
        **agent_files,
    }
