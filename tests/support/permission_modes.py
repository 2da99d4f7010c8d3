"""What an agent does in each permission mode when its model uses a tool: it runs it, asks for it, or is denied it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from farsteer.agents.base import ApprovalAsked
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.approvals import Outcome
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode


class Reaction(StrEnum):
    RUNS = "runs"
    ASKS = "asks"
    DENIED = "denied"


class Scripts(NamedTuple):
    """Messages with which the agent's model uses a tool. The defaults are for the scripted model."""

    read: str = "[[read:{path}]]"
    edit: str = "[[write:{path}:{word}]]"
    """Writes `{word}` to `{path}`."""
    command: str = "[[bash:touch {name}]]"


SCRIPTED_MODEL = Scripts()


async def observe_permission_modes(harness: Harness, scripts: Scripts = SCRIPTED_MODEL) -> dict[str, str]:
    """Let the agent read, edit and run a command in every mode. Returns its column in docs/agents.md."""
    observed: dict[str, str] = {}
    for mode in PermissionMode:
        agent = await harness.launch(harness.plan(mode=mode))
        for action, reaction in {
            "read": await _read(harness, agent, scripts.read),
            "edit": await _edit(harness, agent, scripts.edit),
            "command": await _command(harness, agent, scripts.command),
        }.items():
            observed[f"`{mode}`, {action}"] = reaction
        await agent.launch.stop()
    return observed


async def _read(harness: Harness, agent: RecordedLaunch, script: str) -> Reaction:
    path, word = _new_file(harness), new_id()
    path.write_text(word)
    asked = await _run(agent, script.format(path=path))
    return _reaction(asked=asked, done=word in agent.text())


async def _edit(harness: Harness, agent: RecordedLaunch, script: str) -> Reaction:
    path, word = _new_file(harness), new_id()
    asked = await _run(agent, script.format(path=path, word=word))
    return _reaction(asked=asked, done=path.exists() and word in path.read_text())


async def _command(harness: Harness, agent: RecordedLaunch, script: str) -> Reaction:
    path = _new_file(harness)
    asked = await _run(agent, script.format(name=path.name))
    return _reaction(asked=asked, done=path.exists())


def _new_file(harness: Harness) -> Path:
    return harness.directory / f"{new_id()}.txt"


async def _run(agent: RecordedLaunch, script: str) -> bool:
    """Run a turn and allow what it asks for. Returns whether it asked."""
    before = _asked(agent)
    turn_id = await agent.send(script)
    await agent.wait_until(lambda: agent.has_ended(turn_id) or _asked(agent) > before)
    if _asked(agent) == before:
        return False
    await agent.answer((await agent.wait_for_approvals())[before], Outcome.APPROVED)
    await agent.wait_for_end(turn_id)
    return True


def _asked(agent: RecordedLaunch) -> int:
    return len(agent.outputs_of(ApprovalAsked))


def _reaction(*, asked: bool, done: bool) -> Reaction:
    assert done or not asked, "an approved tool must run"
    return Reaction.ASKS if asked else Reaction.RUNS if done else Reaction.DENIED
