"""What the real Droid does when its model fails, and that the next turn works."""

from __future__ import annotations

import pytest

from farsteer.agents.base import DeltaEmitted
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.core.events import AgentMessage, Notice, TurnEndReason
from tests.support.model import ScriptedModel
from tests.vendor.droid.conftest import only_new, only_old
from tests.vendor.pins import DROID, Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


async def works(scene: Scene) -> None:
    await scene.turn("and now?")
    assert scene.events(AgentMessage)[-1].text == "echo: and now?"


def retries(scene: Scene) -> list[Notice]:
    return [notice for notice in scene.events(Notice) if notice.code == "model_retry"]


@pytest.mark.parametrize("status", [400, 401])
async def test_a_refused_request_fails_the_turn_with_its_reason(stage: Stage, status: int) -> None:
    scene = await stage.launch()
    ended = await scene.turn(f"[[error:{status}]]")
    assert ended.reason is TurnEndReason.FAILED
    assert f"scripted {status}" in (ended.error or "")
    await works(scene)


async def test_an_overloaded_model_is_asked_again(stage: Stage, droid: Pin, model: ScriptedModel) -> None:
    scene = await stage.launch()
    ended = await scene.turn("[[error:500:1]][[say:recovered]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert [event.text for event in scene.events(AgentMessage)] == ["recovered"]
    # The old version tells nobody that it tries again.
    assert len(retries(scene)) == (1 if droid == DROID else 0)


async def test_a_model_that_stays_overloaded_can_be_interrupted(stage: Stage, model: ScriptedModel) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("[[error:500]]")
    await model.log.wait(lambda seen: seen.outcome == "error 500")
    await scene.launch.interrupt()
    assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
    await works(scene)


async def broken_once(scene: Scene, model: ScriptedModel) -> str:
    """The text of a message whose stream breaks behind its first word, which was seen, and is begun again."""
    turn_id = await scene.begin("[[say:half ]][[meet:seen:2]][[drop:1]][[say:done]]")
    await scene.until(lambda: bool(scene.of(DeltaEmitted)))
    model.meet("seen")
    assert (await scene.end(turn_id)).reason is TurnEndReason.END_TURN
    (message,) = scene.events(AgentMessage)
    return message.text


@only_new
async def test_a_broken_stream_is_begun_again_and_nothing_is_said_twice(
    stage: Stage, model: ScriptedModel
) -> None:
    scene = await stage.launch()
    assert await broken_once(scene, model) == "half done"
    assert len(retries(scene)) == 1


@only_old
async def test_the_old_version_keeps_both_halves_of_a_broken_stream(
    stage: Stage, model: ScriptedModel
) -> None:
    """It says so itself, also to the model: there is nothing to repair."""
    assert await broken_once(await stage.launch(), model) == "half half done"


@only_new
async def test_a_stream_that_always_breaks_fails_the_turn(stage: Stage, model: ScriptedModel) -> None:
    scene = await stage.launch()
    ended = await scene.turn("[[say:half]][[drop]]")
    assert ended.reason is TurnEndReason.FAILED
    assert ended.error
    assert len(retries(scene)) > 1
    await works(scene)


async def test_a_stream_that_ends_too_early_is_taken_as_it_is(stage: Stage) -> None:
    scene = await stage.launch()
    assert (await scene.turn("[[say:half ]][[cut]]")).reason is TurnEndReason.END_TURN
    assert [event.text for event in scene.events(AgentMessage)] == ["half "]
    await works(scene)
