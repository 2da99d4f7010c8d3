"""Modes, model and effort in Droid's words; what it silently ignores is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from farsteer.agents.droid.notes import Settings
from farsteer.agents.droid.settings import mode_of, mode_params
from farsteer.core.errors import AgentError, BadRequest
from farsteer.core.events import ModeUpdate, Notice
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.agents.droid.conftest import Open
from tests.agents.droid.peer import SESSION, SETTINGS, Peer, Recorder, Stage, note, opened, plan


@pytest.mark.parametrize(
    ("mode", "interaction", "level", "old"),
    [
        (PermissionMode.DEFAULT, "auto", "off", "normal"),
        (PermissionMode.READ_ONLY, "auto", "off", "normal"),
        (PermissionMode.ACCEPT_EDITS, "auto", "low", "auto-low"),
        (PermissionMode.SAFE_YOLO, "auto", "medium", "auto-medium"),
        (PermissionMode.YOLO, "auto", "high", "auto-high"),
        (PermissionMode.BYPASS, "auto", "high", "auto-high"),
        (PermissionMode.PLAN, "spec", "off", "spec"),
    ],
)
def test_each_mode_has_its_words(mode: PermissionMode, interaction: str, level: str, old: str) -> None:
    assert mode_params(mode) == {"interactionMode": interaction, "autonomyLevel": level}
    assert mode_params(mode, old=True) == {"autonomyLevel": old}
    for said in (
        Settings(interaction_mode=interaction, autonomy_level=level), Settings(autonomy_level=old),
        Settings(autonomy_mode=old),
    ):  # fmt: skip
        back = mode_of(said)
        assert back is not None
        assert mode_params(back) == mode_params(mode)


def test_words_we_do_not_know_are_no_mode() -> None:
    assert mode_of(Settings()) is None
    assert mode_of(Settings(autonomy_level="unheard-of")) is None


async def change(stage: Stage, call: Any, **settings: Any) -> dict[str, Any]:
    """Droid does what it is asked: it tells the settings, then confirms."""
    changing = asyncio.create_task(call)
    request = await stage.peer.request("update_session_settings")
    if settings:
        await stage.peer.notes(note("settings_updated", settings={**SETTINGS, **settings}), session=None)
    await stage.peer.answer(request)
    await changing
    return request["params"]


async def test_a_change_that_was_asked_for_is_made_and_not_echoed(stage: Stage) -> None:
    launch = stage.launch
    asked = await change(stage, launch.set_permission_mode(PermissionMode.YOLO), autonomyLevel="high")
    assert asked == {"interactionMode": "auto", "autonomyLevel": "high"}
    asked = await change(stage, launch.set_model("model-b"), autonomyLevel="high", modelId="model-b")
    assert asked == {"modelId": "model-b"}
    high = {"autonomyLevel": "high", "modelId": "model-b", "reasoningEffort": "high"}
    assert await change(stage, launch.set_effort(ReasoningEffort.HIGH), **high) == {"reasoningEffort": "high"}
    assert stage.sink.events() == []


async def test_a_mode_that_is_silently_ignored_is_told_and_corrected(stage: Stage) -> None:
    await change(stage, stage.launch.set_permission_mode(PermissionMode.PLAN))
    notice, update = stage.sink.events()
    assert (notice.code, notice.meta["asked"], notice.meta["actual"]) == (
        "setting_ignored",
        "plan",
        "default",
    )
    assert update == ModeUpdate(permission_mode=PermissionMode.DEFAULT)


async def test_an_effort_that_the_model_lacks_is_told_once(stage: Stage) -> None:
    await change(stage, stage.launch.set_effort(ReasoningEffort.XHIGH), reasoningEffort="none")
    assert [notice.meta["setting"] for notice in stage.sink.events(Notice)] == ["effort"]
    await change(stage, stage.launch.set_model("model-b"), modelId="model-b")
    assert len(stage.sink.events()) == 1


async def test_a_model_that_nobody_knows_is_told_although_droid_takes_it(stage: Stage) -> None:
    await change(stage, stage.launch.set_model("model-z"), modelId="model-z")
    (notice,) = stage.sink.events()
    assert (notice.code, notice.meta) == ("unknown_model", {"model": "model-z"})


async def test_a_refused_change_fails_and_changes_nothing(stage: Stage) -> None:
    changing = asyncio.create_task(stage.launch.set_effort(ReasoningEffort.HIGH))
    await stage.peer.request("update_session_settings")
    await stage.peer.fail(None, -32600, "Invalid request format")
    with pytest.raises(BadRequest):
        await changing
    await stage.peer.notes(note("settings_updated", settings=SETTINGS), session=None)
    assert stage.sink.events() == []


async def test_a_change_that_droid_makes_itself_is_told_once(stage: Stage) -> None:
    changed = note("settings_updated", settings={**SETTINGS, "interactionMode": "spec"})
    await stage.peer.notes(changed, changed, changed, session=None)
    assert stage.sink.events() == [ModeUpdate(permission_mode=PermissionMode.PLAN)]


async def test_a_partial_update_leaves_the_rest_as_it_was(stage: Stage) -> None:
    await stage.peer.notes(note("settings_updated", settings={"modelId": "model-b"}), session=None)
    assert stage.sink.events() == [ModeUpdate(model="model-b")]


async def test_the_model_that_droid_chose_itself_is_told(start: Open) -> None:
    stage = await start(plan(model=None))
    assert stage.sink.events() == [ModeUpdate(model="model-a")]


async def test_a_session_begins_with_what_the_plan_wants(start: Open) -> None:
    stage = await start(
        plan(mode=PermissionMode.PLAN, effort=ReasoningEffort.LOW),
        answer=opened(interactionMode="spec", reasoningEffort="low"),
    )
    assert stage.peer.written[0]["params"] == {
        "machineId": "farsteer", "cwd": "/", "interactionMode": "spec", "autonomyLevel": "off",
        "modelId": "model-a", "reasoningEffort": "low",
    }  # fmt: skip
    assert stage.sink.events() == []


class Opened:
    """A launch that is being started, while the test plays Droid."""

    def __init__(self, peers: list[Peer], **plan_fields: Any) -> None:
        from farsteer.agents.droid.launch import DroidLaunch

        self.sink = Recorder()
        self.task = asyncio.create_task(DroidLaunch.start(("droid",), plan(**plan_fields), self.sink))
        self._peers = peers

    async def peer(self) -> Peer:
        while not self._peers:  # noqa: ASYNC110
            await asyncio.sleep(0)
        return self._peers[-1]


async def test_an_older_cli_is_set_in_its_own_words(peers: list[Peer]) -> None:
    starting = Opened(peers, mode=PermissionMode.ACCEPT_EDITS)
    peer = await starting.peer()
    await peer.request("initialize_session")
    await peer.fail(None, -32600, "Invalid request format")
    again = await peer.request("initialize_session")
    assert "autonomyLevel" not in again["params"]
    answer = {"sessionId": SESSION, "settings": {"modelId": "model-a", "autonomyLevel": "spec"}}
    await peer.answer(again, answer)
    request = await peer.request("update_session_settings")
    assert request["params"] == {"autonomyLevel": "auto-low"}
    await peer.notes(note("settings_updated", settings={"autonomyLevel": "auto-low"}), session=None)
    await peer.answer(request)
    launch = await starting.task
    assert starting.sink.events() == []
    await launch.stop(0)


async def test_a_resumed_session_gets_the_modes_of_the_plan_and_not_its_old_ones(peers: list[Peer]) -> None:
    starting = Opened(peers, resume=SESSION)
    peer = await starting.peer()
    loaded = await peer.request("load_session")
    await peer.notes(note("settings_updated", settings={**SETTINGS, "autonomyLevel": "high"}), session=None)
    await peer.answer(loaded, opened(autonomyLevel="high"))
    request = await peer.request("update_session_settings")
    assert request["params"] == {"interactionMode": "auto", "autonomyLevel": "off"}
    await peer.notes(note("settings_updated", settings=SETTINGS), session=None)
    await peer.answer(request)
    launch = await starting.task
    assert starting.sink.events() == [], "the mode the person chose was never anything else"
    await launch.stop(0)


async def test_a_droid_that_keeps_more_autonomy_than_asked_for_is_not_started(peers: list[Peer]) -> None:
    starting = Opened(peers, resume=SESSION)
    peer = await starting.peer()
    await peer.answer(await peer.request("load_session"), opened(autonomyLevel="high"))
    await peer.answer(await peer.request("update_session_settings"))
    with pytest.raises(AgentError, match="more autonomy"):
        await starting.task
    assert not peer.running
