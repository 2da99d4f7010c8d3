"""Runs the scenarios on the recorded exchanges.

To regenerate the golden files: `.venv/bin/python -m tests.support.wire.replay [AGENT]`. Read the changes before
committing.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from farsteer import __version__
from farsteer.agents.conformance.harness import Harness, Prompts
from tests.support.outputs import format_json, merge_deltas, with_short_ids
from tests.support.wire.agent import WireAgent
from tests.support.wire.names import StableNames
from tests.support.wire.player import Player
from tests.support.wire.recording import Json
from tests.support.wire.stage import ROOT, Stage

TOP = Path("/scenario")
"""Stands for the temporary directory of a recording."""
_SECONDS = 10.0
_OF_A_MACHINE = re.compile(
    r"127\.0\.0\.1|localhost|/(root|Users)/|(?<!scenario)/home/|(?<!scenario)/tmp/|pytest|node_modules"
)
"""What a file must not have: addresses, and paths of the machine that it was recorded on."""


def machine_places() -> dict[str, str]:
    """Return the paths of this machine that a scenario knows, and our version, which an agent is told."""
    return {str(ROOT): "/repository", sys.executable: "/python", __version__: "VERSION"}


async def replay(agent: WireAgent, name: str) -> str:
    """Return what the adapter writes and emits in a scenario, one line each."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        environment = {"HOME": str(TOP / "home"), "PATH": os.environ["PATH"]}
        stack.enter_context(patch.dict(os.environ, environment, clear=True))
        harness = Harness(agent.adapter(sys.executable), Prompts(answer="", long=""), folder, _SECONDS)
        harness.directory, harness.state_dir = TOP / "project", str(TOP / "state")
        stage = Stage(harness, lambda _: None, is_real=False)

        def on_write(message: Json) -> None:
            stage.lines.append(_format_written(message))

        player = Player(agent.recorded(name), StableNames(machine_places()), on_write)
        for module in agent.modules:
            stack.enter_context(patch.object(module, "AgentProcess", player))
        for target, stand_in in agent.stand_ins(player).items():
            stack.enter_context(patch(target, stand_in))
        await _play(agent, name, stage, player)
        return "\n".join(with_short_ids(merge_deltas(stage.lines))) + "\n"


async def _play(agent: WireAgent, name: str, stage: Stage, player: Player) -> None:
    async def scenario() -> None:
        await agent.scenarios[name](stage)
        await stage.harness.close()

    playing = asyncio.ensure_future(scenario())
    await asyncio.wait((playing, player.failure), timeout=_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    if player.failure.done():
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        player.failure.result()
    if not playing.done():
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        raise TimeoutError(f"{name} does not go on after: {player.state()}")
    playing.result()
    player.check_finished()


def _format_written(message: Json) -> str:
    return f"> {format_json(message)}"


def write_golden(agent: WireAgent, name: str) -> None:
    path = agent.golden(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(asyncio.run(replay(agent, name)))


def check_files(agent: WireAgent) -> None:
    """Check that each scenario has a transcript and a golden file, that no other is there, and what they name."""
    for folder, ending in (("transcripts", "jsonl"), ("golden", "txt")):
        found = {path.name for path in (agent.folder / folder).iterdir()}
        assert found == {f"{name}.{ending}" for name in agent.scenarios}
        for path in (agent.folder / folder).iterdir():
            named = _OF_A_MACHINE.findall(path.read_text())
            assert not named, f"{path.name}: {named}"


def output_kinds(lines: list[str]) -> list[str]:
    """Return the kinds of outputs in the text of a replay. Repetitions count once, and titles come last.

    A title comes when the agent has thought of one.
    """
    found: list[str] = []
    titles: list[str] = []
    for line in lines:
        words = line.split(" ", 2)
        kind = " ".join(words[:2]) if words[0] in ("…", "asked") else words[0]
        if words[0] == "END":
            kind = f"END {line.split(' ', 3)[2].rstrip(':')}"
        kinds = titles if kind == "title_update" else found
        # Warnings are about the machine.
        if kind != ">" and '"agent_warning"' not in line and kinds[-1:] != [kind]:
            kinds.append(kind)
    return found + titles


def main() -> None:
    from tests.support.wire.agents import AGENTS

    for agent in [AGENTS[name] for name in sys.argv[1:] or AGENTS]:
        for name in agent.scenarios:
            if agent.transcript(name).exists():
                write_golden(agent, name)


if __name__ == "__main__":
    main()
