"""The vocabulary that the Droid adapter and the Droid face share."""

from __future__ import annotations

import pytest

from farsteer.core import droid
from farsteer.core.events import TurnEndReason
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.support.droid_modes import DROID_MODES


@pytest.mark.parametrize(("mode", "interaction", "level", "old"), DROID_MODES)
def test_each_mode_has_its_settings(mode: PermissionMode, interaction: str, level: str, old: str) -> None:
    assert droid.interaction_mode(mode) == interaction
    assert droid.autonomy_level(mode) == level
    assert droid.autonomy_mode(mode) == old


@pytest.mark.parametrize("mode", PermissionMode)
def test_settings_in_either_form_give_a_mode_with_the_same_settings(mode: PermissionMode) -> None:
    interaction, level, old = (
        droid.interaction_mode(mode),
        droid.autonomy_level(mode),
        droid.autonomy_mode(mode),
    )
    for found in (
        droid.permission_mode(interaction, level),
        droid.permission_mode(autonomy_level=old),
        droid.permission_mode(autonomy_mode=old),
    ):
        assert found is not None
        assert (droid.interaction_mode(found), droid.autonomy_level(found)) == (interaction, level)


def test_missing_and_unknown_levels_give_no_mode() -> None:
    assert droid.permission_mode() is None
    assert droid.permission_mode("auto") is None
    assert droid.permission_mode(autonomy_level="unlimited") is None


def test_every_effort_can_be_requested() -> None:
    assert {effort for effort in droid.EFFORT_BY_NAME.values() if effort is not None} == {*ReasoningEffort}
    assert {*droid.REASONING_EFFORTS} <= droid.EFFORT_BY_NAME.keys()


@pytest.mark.parametrize("reason", [TurnEndReason.END_TURN, TurnEndReason.CANCELLED, TurnEndReason.REFUSAL])
def test_a_reason_survives_the_way_to_droid_and_back(reason: TurnEndReason) -> None:
    assert droid.turn_end_reason(droid.completion_reason(reason)) is reason


def test_an_unknown_reason_is_a_failure() -> None:
    assert droid.turn_end_reason("of_the_future") is TurnEndReason.FAILED
    assert droid.completion_reason(TurnEndReason.LOST) == "error"


def test_every_way_to_approve_a_plan_is_an_autonomy_level() -> None:
    levels = {droid.autonomy_level(mode) for mode in droid.PLAN_OPTION_MODES.values()}
    assert levels == {*droid.AUTONOMY_LEVELS}
