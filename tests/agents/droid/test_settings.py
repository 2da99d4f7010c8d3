"""Permission mode, model and effort; a setting that Droid silently ignores is reported."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from farsteer.agents.droid.protocol import Settings
from farsteer.agents.droid.settings import mode_params, permission_mode_of
from farsteer.core.errors import AgentError, BadRequest, ErrorCode
from farsteer.core.events import ModeUpdate
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.agents.droid.conftest import StartLaunch
from tests.agents.droid.fake_droid import (
    SESSION,
    SETTINGS,
    FakeDroid,
    LaunchHarness,
    StartingLaunch,
    notification,
    opened_session,
    plan,
)
from tests.support.droid_modes import DROID_MODES


@pytest.mark.parametrize(("mode", "interaction", "level", "old"), DROID_MODES)
def test_each_mode_has_its_settings(mode: PermissionMode, interaction: str, level: str, old: str) -> None:
    assert mode_params(mode) == {"interactionMode": interaction, "autonomyLevel": level}
    assert mode_params(mode, old_names=True) == {"autonomyLevel": old}
    for said in (
        Settings(interaction_mode=interaction, autonomy_level=level), Settings(autonomy_level=old),
        Settings(autonomy_mode=old),
    ):  # fmt: skip
        back = permission_mode_of(said)
        assert back is not None
        assert mode_params(back) == mode_params(mode)


def test_unknown_levels_have_no_mode() -> None:
    assert permission_mode_of(Settings()) is None
    assert permission_mode_of(Settings(autonomy_level="unknown")) is None


async def change(harness: LaunchHarness, call: Any, **settings: Any) -> dict[str, Any]:
    """Let Droid report these settings and confirm the request; return its parameters."""
    changing = asyncio.create_task(call)
    request = await harness.droid.next_request("update_session_settings")
    if settings:
        await harness.droid.notify(
            notification("settings_updated", settings={**SETTINGS, **settings}), session=None
        )
    await harness.droid.respond(request)
    await changing
    return request["params"]


async def test_a_requested_change_is_not_reported_back(harness: LaunchHarness) -> None:
    launch = harness.launch
    asked = await change(harness, launch.set_permission_mode(PermissionMode.YOLO), autonomyLevel="high")
    assert asked == {"interactionMode": "auto", "autonomyLevel": "high"}
    asked = await change(harness, launch.set_model("model-b"), autonomyLevel="high", modelId="model-b")
    assert asked == {"modelId": "model-b"}
    high = {"autonomyLevel": "high", "modelId": "model-b", "reasoningEffort": "high"}
    assert await change(harness, launch.set_effort(ReasoningEffort.HIGH), **high) == {
        "reasoningEffort": "high"
    }
    assert harness.sink.events_of() == []


async def test_an_ignored_mode_is_reported_and_corrected(harness: LaunchHarness) -> None:
    await change(harness, harness.launch.set_permission_mode(PermissionMode.PLAN))
    notice, update = harness.sink.events_of()
    assert (notice.code, notice.meta["asked"], notice.meta["actual"]) == (
        "setting_ignored",
        "plan",
        "default",
    )
    assert update == ModeUpdate(permission_mode=PermissionMode.DEFAULT)


async def test_an_effort_that_droid_ignores_is_an_error_for_the_caller(harness: LaunchHarness) -> None:
    with pytest.raises(BadRequest, match="stays at none") as caught:
        await change(harness, harness.launch.set_effort(ReasoningEffort.XHIGH), reasoningEffort="none")
    assert caught.value.code is ErrorCode.EFFORT_UNKNOWN
    await change(harness, harness.launch.set_model("model-b"), modelId="model-b")
    assert harness.sink.events_of() == []


async def test_a_model_or_effort_that_droid_does_not_have_is_refused_with_those_it_has(
    harness: LaunchHarness,
) -> None:
    with pytest.raises(
        BadRequest, match="has no model opus; it has model-a, model-b, custom:Mine-0"
    ) as unknown:
        harness.launch.check_settings("opus", None)
    assert unknown.value.code is ErrorCode.MODEL_UNKNOWN
    assert unknown.value.details["models"] == ["model-a", "model-b", "custom:Mine-0"]
    with pytest.raises(BadRequest, match="has no reasoning effort xhigh; it has none, high") as effort:
        harness.launch.check_settings("model-b", ReasoningEffort.XHIGH)
    assert effort.value.details["efforts"] == ["none", "high"]
    harness.launch.check_settings("model-b", ReasoningEffort.HIGH)
    harness.launch.check_settings(
        "custom:Mine-7", None
    )  # the second of the owner's own models, or the first Mine


async def test_an_unlisted_model_is_reported_although_droid_accepts_it(harness: LaunchHarness) -> None:
    await change(harness, harness.launch.set_model("model-z"), modelId="model-z")
    (notice,) = harness.sink.events_of()
    assert (notice.code, notice.meta) == ("unknown_model", {"model": "model-z"})


async def test_a_refused_change_fails_and_changes_nothing(harness: LaunchHarness) -> None:
    changing = asyncio.create_task(harness.launch.set_effort(ReasoningEffort.HIGH))
    await harness.droid.next_request("update_session_settings")
    await harness.droid.respond_error(None, -32600, "Invalid request format")
    with pytest.raises(BadRequest):
        await changing
    await harness.droid.notify(notification("settings_updated", settings=SETTINGS), session=None)
    assert harness.sink.events_of() == []


async def test_a_change_by_droid_is_emitted_once(harness: LaunchHarness) -> None:
    changed = notification("settings_updated", settings={**SETTINGS, "interactionMode": "spec"})
    await harness.droid.notify(changed, changed, changed, session=None)
    assert harness.sink.events_of() == [ModeUpdate(permission_mode=PermissionMode.PLAN)]


async def test_a_partial_update_leaves_the_rest_as_it_was(harness: LaunchHarness) -> None:
    await harness.droid.notify(
        notification("settings_updated", settings={"modelId": "model-b"}), session=None
    )
    assert harness.sink.events_of() == [ModeUpdate(model="model-b")]


async def test_the_model_that_droid_chose_is_emitted(start: StartLaunch) -> None:
    harness = await start(plan(model=None))
    assert harness.sink.events_of() == [ModeUpdate(model="model-a")]


async def test_a_new_session_has_the_settings_of_the_plan(start: StartLaunch) -> None:
    harness = await start(
        plan(mode=PermissionMode.PLAN, effort=ReasoningEffort.LOW),
        answer=opened_session(interactionMode="spec", reasoningEffort="low"),
    )
    assert harness.droid.written[0]["params"] == {
        "machineId": "farsteer", "cwd": "/", "interactionMode": "spec", "autonomyLevel": "off",
        "modelId": "model-a", "reasoningEffort": "low",
    }  # fmt: skip
    assert harness.sink.events_of() == []


async def test_an_older_cli_is_set_with_its_own_names(droids: list[FakeDroid]) -> None:
    starting = StartingLaunch(droids, mode=PermissionMode.ACCEPT_EDITS)
    droid = await starting.droid()
    await droid.next_request("initialize_session")
    await droid.respond_error(None, -32600, "Invalid request format")
    again = await droid.next_request("initialize_session")
    assert "autonomyLevel" not in again["params"]
    answer = {"sessionId": SESSION, "settings": {"modelId": "model-a", "autonomyLevel": "spec"}}
    await droid.respond(again, answer)
    request = await droid.next_request("update_session_settings")
    assert request["params"] == {"autonomyLevel": "auto-low"}
    await droid.notify(notification("settings_updated", settings={"autonomyLevel": "auto-low"}), session=None)
    await droid.respond(request)
    launch = await starting.task
    assert starting.sink.events_of() == []
    await launch.stop(0)


async def test_a_resumed_session_gets_the_settings_of_the_plan(
    droids: list[FakeDroid],
) -> None:
    starting = StartingLaunch(droids, resume=SESSION)
    droid = await starting.droid()
    loaded = await droid.next_request("load_session")
    await droid.notify(
        notification("settings_updated", settings={**SETTINGS, "autonomyLevel": "high"}), session=None
    )
    await droid.respond(loaded, opened_session(autonomyLevel="high"))
    request = await droid.next_request("update_session_settings")
    assert request["params"] == {"interactionMode": "auto", "autonomyLevel": "off"}
    await droid.notify(notification("settings_updated", settings=SETTINGS), session=None)
    await droid.respond(request)
    launch = await starting.task
    assert starting.sink.events_of() == [], "the mode of the plan has not changed"
    await launch.stop(0)


async def test_a_droid_that_keeps_more_autonomy_than_asked_for_is_not_started(
    droids: list[FakeDroid],
) -> None:
    starting = StartingLaunch(droids, resume=SESSION)
    droid = await starting.droid()
    await droid.respond(await droid.next_request("load_session"), opened_session(autonomyLevel="high"))
    await droid.respond(await droid.next_request("update_session_settings"))
    with pytest.raises(AgentError, match="more autonomy"):
        await starting.task
    assert not droid.running
