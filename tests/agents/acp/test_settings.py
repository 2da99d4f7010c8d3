from __future__ import annotations

from typing import Any

import pytest

from farsteer.agents.acp.protocol import NativeMode, NativeModes, OpenedSession
from farsteer.agents.acp.settings import Change, SessionSettings
from farsteer.agents.catalog.definition import NativeModeNames
from farsteer.core.errors import AgentError
from farsteer.core.modes import PermissionMode

NAMES = NativeModeNames(ask="ask", plan="plan", yolo="free", others={"auto": PermissionMode.ACCEPT_EDITS})


def option(id: str, current: str, *values: str, category: str | None = None) -> dict[str, Any]:
    options = [{"value": value, "name": value} for value in values]
    return {"id": id, "type": "select", "category": category, "currentValue": current, "options": options}


def settings(mode: PermissionMode = PermissionMode.DEFAULT, *options: dict[str, Any]) -> SessionSettings:
    made = SessionSettings("Sim", NAMES, mode, None, None)
    made.handle_opened(OpenedSession(config_options=[*options]))
    return made


MODES = option("mode", "auto", "ask", "plan", "free", "auto", category="mode")


@pytest.mark.parametrize(
    ("mode", "native"),
    [
        (PermissionMode.DEFAULT, "ask"), (PermissionMode.ACCEPT_EDITS, "ask"), (PermissionMode.SAFE_YOLO, "ask"),
        (PermissionMode.PLAN, "plan"), (PermissionMode.READ_ONLY, "plan"), (PermissionMode.YOLO, "free"),
        (PermissionMode.BYPASS, "free"),
    ],
)  # fmt: skip
def test_native_modes_are_used_for_plans_and_for_never_asking_only(mode: PermissionMode, native: str) -> None:
    (change,) = settings(mode, MODES).initial_changes()
    assert change == Change("session/set_config_option", {"configId": "mode", "value": native}, is_mode=True)


def test_an_agent_without_a_free_mode_is_asked_and_answered() -> None:
    made = settings(PermissionMode.YOLO, option("mode", "plan", "ask", "plan", category="mode"))
    assert made.initial_changes()[0].params["value"] == "ask"
    assert made.allows_everything


def test_an_agent_without_its_asking_mode_is_refused() -> None:
    with pytest.raises(AgentError, match="no mode 'ask'"):
        settings(PermissionMode.DEFAULT, option("mode", "x", "x", "y", category="mode")).initial_changes()


def test_the_agent_never_makes_our_policy_looser_by_itself() -> None:
    made = settings(PermissionMode.DEFAULT, MODES)
    made.initial_changes()
    for native, reported in (("auto", PermissionMode.ACCEPT_EDITS), ("new", PermissionMode.YOLO)):
        update = made.handle_native_mode(native)
        assert update is not None
        assert update.permission_mode is reported
        assert made.mode is PermissionMode.DEFAULT
    assert made.mode_changes(PermissionMode.DEFAULT)[0].params["value"] == "ask"


def test_the_agent_may_be_stricter_and_go_back() -> None:
    made = settings(PermissionMode.ACCEPT_EDITS, MODES)
    made.initial_changes()
    made.handle_native_mode("plan")
    assert made.is_read_only
    update = made.handle_native_mode("ask")
    assert update is not None
    assert update.permission_mode is made.mode is PermissionMode.ACCEPT_EDITS


def test_a_report_that_is_older_than_our_change_is_ignored() -> None:
    made = settings(PermissionMode.DEFAULT, MODES)
    made.initial_changes()
    made.is_changing = True
    assert made.handle_options([option("mode", "free", "ask", "free", category="mode")]) is None
    assert made.mode is PermissionMode.DEFAULT


def test_beside_modes_another_option_of_the_category_is_not_the_mode() -> None:
    made = SessionSettings("Sim", NAMES, PermissionMode.DEFAULT, None, None)
    modes = NativeModes(current_mode_id="free", available_modes=[NativeMode(id="ask"), NativeMode(id="free")])
    levels = option("autonomy", "low", "low", "high", category="mode")
    made.handle_opened(OpenedSession(modes=modes, config_options=[levels]))
    assert made.initial_changes() == [Change("session/set_mode", {"modeId": "ask"}, is_mode=False)]
    assert made.handle_options([levels]) is None


def test_options_that_are_not_understood_are_ignored() -> None:
    broken: list[Any] = [
        {},
        {"id": 5},
        {"id": "x", "options": 5},
        {"id": "y", "options": [None, {"value": 5}]},
    ]
    made = settings(PermissionMode.DEFAULT, *broken)
    assert made.models == ()
