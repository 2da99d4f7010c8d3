"""The real Droid when its model fails, and the turn after that."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.base import DeltaEmitted
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.errors import NotCapable
from farsteer.core.events import AgentMessage, Notice, TurnEndReason
from tests.support.model import ScriptedModel
from tests.vendor.droid.conftest import call_droid, only_new, only_old
from tests.vendor.pins import DROID, Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


async def check_next_turn(agent: RecordedLaunch) -> None:
    await agent.run_turn("and now?")
    assert agent.events_of(AgentMessage)[-1].text == "echo: and now?"


def retries(agent: RecordedLaunch) -> list[Notice]:
    return [notice for notice in agent.events_of(Notice) if notice.code == "model_retry"]


@pytest.mark.parametrize("status", [400, 401])
async def test_a_refused_request_fails_the_turn_with_its_reason(harness: Harness, status: int) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn(f"[[error:{status}]]")
    assert ended.reason is TurnEndReason.FAILED
    assert f"scripted {status}" in (ended.error or "")
    await check_next_turn(agent)


async def test_an_overloaded_model_is_retried(harness: Harness, droid: Pin, model: ScriptedModel) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("[[error:500:1]][[say:recovered]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert [event.text for event in agent.events_of(AgentMessage)] == ["recovered"]
    # The old version does not report retries.
    assert len(retries(agent)) == (1 if droid == DROID else 0)


async def test_a_model_that_stays_overloaded_can_be_interrupted(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("[[error:500]]")
    await model.log.wait(lambda seen: seen.outcome == "error 500")
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    await check_next_turn(agent)


async def run_broken_stream(agent: RecordedLaunch, model: ScriptedModel) -> str:
    """Break the stream of a message after its first word has arrived; return the text of the message."""
    turn_id = await agent.send("[[say:half ]][[meet:seen:2]][[drop:1]][[say:done]]")
    await agent.wait_until(lambda: bool(agent.outputs_of(DeltaEmitted)))
    model.meet("seen")
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    (message,) = agent.events_of(AgentMessage)
    return message.text


@only_new
async def test_a_broken_stream_is_repeated_and_nothing_is_doubled(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch()
    assert await run_broken_stream(agent, model) == "half done"
    assert len(retries(agent)) == 1


@only_old
async def test_the_old_version_keeps_both_halves_of_a_broken_stream(
    harness: Harness, model: ScriptedModel
) -> None:
    """The doubled text is in its own history, too, so the adapter does not correct it."""
    assert await run_broken_stream(await harness.launch(), model) == "half half done"


@only_new
async def test_a_stream_that_always_breaks_fails_the_turn(harness: Harness, model: ScriptedModel) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("[[say:half]][[drop]]")
    assert ended.reason is TurnEndReason.FAILED
    assert ended.error
    assert len(retries(agent)) > 1
    await check_next_turn(agent)


async def test_a_stream_that_ends_too_early_is_taken_as_complete(harness: Harness) -> None:
    agent = await harness.launch()
    assert (await agent.run_turn("[[say:half ]][[cut]]")).reason is TurnEndReason.END_TURN
    assert [event.text for event in agent.events_of(AgentMessage)] == ["half "]
    await check_next_turn(agent)


@only_old
async def test_an_unknown_method_is_a_capability_error_and_the_session_goes_on(harness: Harness) -> None:
    agent = await harness.launch()
    for method in ("list_models", "list_tools", "get_context_stats"):
        with pytest.raises(NotCapable):
            await call_droid(agent, method, {})
    assert (await agent.run_turn("still there?")).reason is TurnEndReason.END_TURN


@only_new
async def test_a_missing_login_says_how_to_log_in(
    harness: Harness, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await harness.adapter.detect()).login is None
    monkeypatch.delenv("FACTORY_API_KEY")
    assert (await harness.adapter.detect()).login is None, "it has a model of its own"
    (home.parent / ".factory" / "settings.json").write_text("{}")
    login = (await harness.adapter.detect()).login
    assert login is not None
    assert "/login" in login
    assert (await (await harness.launch()).run_turn("hello")).reason is TurnEndReason.FAILED
