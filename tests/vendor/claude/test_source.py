"""The source of a session in the payload of the hook `SessionStart`, beside the settings and hooks of the owner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, LaunchPlan
from farsteer.agents.claude.translator import SESSION_START
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.events import Notice, Other, TurnEndReason
from farsteer.core.modes import PermissionMode
from tests.support.model import ScriptedModel

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

SOURCE = "external-api"


def with_source(plan: LaunchPlan) -> LaunchPlan:
    return msgspec.structs.replace(plan, source=SOURCE)


def payloads(agent: RecordedLaunch) -> list[dict[str, Any]]:
    return [event.data for event in agent.events_of(Other) if event.native_kind == SESSION_START]


async def test_the_payload_has_the_source_on_startup_resume_and_fork(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch(with_source(harness.plan()))
    await agent.run_turn("hello")
    await agent.launch.stop()
    native_id = agent.launch.native_id
    resumed = await harness.launch(
        with_source(harness.plan(session_id=agent.plan.session_id, resume=native_id))
    )
    await resumed.run_turn("hello again")
    fork = await harness.launch(with_source(harness.plan(fork_of=native_id)))
    await fork.run_turn("hello from the fork")
    for launch, event, started in (
        (agent, "startup", native_id),
        (resumed, "resume", native_id),
        (fork, "fork", fork.launch.native_id),
    ):
        (payload,) = payloads(launch)
        assert payload["hook_event_name"] == "SessionStart"
        assert payload["hapi_source"] == SOURCE
        assert payload["source"] == event, "Claude Code's own value stays"
        assert payload["session_id"] == started
    assert SOURCE not in json.dumps([turn.body for turn in model.log.turns]), "the model is not told"


async def test_without_a_source_there_is_no_hook(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("hello")
    assert payloads(agent) == []


def hook(marker: Path) -> dict[str, Any]:
    """Return a hook that notes its payload and the source, and tells the model something."""
    command = f'(cat; echo " $HAPI_SESSION_SOURCE") >> {marker}; echo "context from {marker.name}"'
    return {"hooks": [{"type": "command", "command": command}]}


async def test_settings_and_hooks_of_user_project_and_machine_stay_in_force(
    harness: Harness, model: ScriptedModel, tmp_path: Path
) -> None:
    project = harness.directory / ".claude"
    project.mkdir()
    home = Path.home() / ".claude"
    home.mkdir(exist_ok=True)
    places = {
        "user": home / "settings.json",
        "project": project / "settings.json",
        "local": project / "settings.local.json",
    }
    for name, path in places.items():
        settings = {
            "hooks": {
                "SessionStart": [hook(tmp_path / f"{name}-start")],
                "PreToolUse": [{"matcher": "Bash", **hook(tmp_path / f"{name}-tool")}],
                "Stop": [hook(tmp_path / f"{name}-stop")],
            },
            "permissions": {"allow": [f"Bash(touch {name}.txt)"], "deny": [f"Bash(touch {name}-denied.txt)"]},
            "env": {f"OF_{name.upper()}": name},
        }
        path.write_text(json.dumps(settings))
    # Claude Code takes what a project allows only if the owner trusts the project.
    trusted = {harness.real_directory: {"hasTrustDialogAccepted": True}}
    (Path.home() / ".claude.json").write_text(json.dumps({"projects": trusted}))

    agent = await harness.launch(with_source(harness.plan()))
    for name in places:
        ended = await agent.run_turn(f"[[bash:touch {name}.txt]][[bash:touch {name}-denied.txt]]")
        assert ended.reason is TurnEndReason.END_TURN
    assert agent.outputs_of(ApprovalAsked) == [], "what the owner allows is not asked for"
    made = {path.name for path in harness.directory.glob("*.txt")}
    assert made == {f"{name}.txt" for name in places}, "what the owner denies does not run"
    for name in places:
        started = (tmp_path / f"{name}-start").read_text()
        assert started.rstrip().endswith(SOURCE), (
            "the hooks of the owner find the source in their environment"
        )
        assert '"hook_event_name":"SessionStart"' in started
        assert (tmp_path / f"{name}-tool").exists()
        assert (tmp_path / f"{name}-stop").exists()
        assert f"context from {name}-start" in json.dumps(model.log.turns[0].body)
    (payload,) = payloads(agent)
    assert payload["hapi_source"] == SOURCE
    assert [notice for notice in agent.events_of(Notice) if notice.code == "hook_failed"] == []


async def test_a_hook_of_the_owner_that_shows_its_payload_is_not_taken_for_ours(harness: Harness) -> None:
    settings = Path.home() / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    same = {"hooks": [{"type": "command", "command": "cat >&2"}]}
    settings.write_text(json.dumps({"hooks": {"SessionStart": [same]}}))
    agent = await harness.launch(with_source(harness.plan()))
    await agent.run_turn("hello")
    assert len(payloads(agent)) == 1


async def test_what_the_owner_allows_is_denied_in_a_read_only_session(harness: Harness) -> None:
    settings = Path.home() / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash", "Write"]}}))
    for mode in (PermissionMode.READ_ONLY, PermissionMode.PLAN):
        agent = await harness.launch(with_source(harness.plan(mode=mode)))
        await agent.run_turn(f"[[bash:touch made.txt]][[write:{harness.directory}/other.txt:text]]")
        assert [notice.code for notice in agent.events_of(Notice)] == ["read_only", "read_only"]
    assert [*harness.directory.iterdir()] == []
