"""Permission mode, model and effort as parameters of threads and turns."""

from __future__ import annotations

from typing import Any

import pytest

from farsteer.agents.codex.settings import SettingsTracker, ThreadSettings
from farsteer.core.modes import PermissionMode as Mode
from farsteer.core.modes import ReasoningEffort


def tracker(mode: Mode = Mode.DEFAULT, sandbox: str = "readOnly", **more: Any) -> SettingsTracker:
    """Return the settings of a thread that Codex has opened."""
    settings = SettingsTracker(mode, more.pop("model", None), more.pop("effort", None), more.pop("roots", ()))
    settings.handle_opened(ThreadSettings(model="gpt", sandbox={"type": sandbox}, **more))
    return settings


@pytest.mark.parametrize(
    ("mode", "asks", "sandbox"),
    [
        (Mode.DEFAULT, True, "read-only"),
        (Mode.ACCEPT_EDITS, True, "read-only"),
        (Mode.PLAN, True, "read-only"),
        (Mode.READ_ONLY, True, "read-only"),
        (Mode.SAFE_YOLO, False, "workspace-write"),
        (Mode.YOLO, False, "danger-full-access"),
        (Mode.BYPASS, False, "danger-full-access"),
    ],
)
def test_a_mode_is_a_policy_and_a_sandbox(mode: Mode, asks: bool, sandbox: str) -> None:
    params = SettingsTracker(mode, None, None).thread_params()
    assert params["sandbox"] == sandbox
    assert (params["approvalPolicy"] != "never") is asks
    assert params["approvalsReviewer"] == "user"


def test_every_mode_is_known() -> None:
    for mode in Mode:
        assert SettingsTracker(mode, None, None).turn_params()


def test_a_turn_names_the_sandbox_only_if_it_changes() -> None:
    settings = tracker()
    assert "sandboxPolicy" not in settings.turn_params()
    settings.mode = Mode.YOLO
    assert settings.turn_params()["sandboxPolicy"] == {"type": "dangerFullAccess"}
    settings.turn_accepted()
    assert "sandboxPolicy" not in settings.turn_params()


def test_a_change_that_codex_has_not_accepted_is_sent_again() -> None:
    settings = tracker()
    settings.mode = Mode.YOLO
    settings.turn_params()
    assert "sandboxPolicy" in settings.turn_params()


def test_the_workspace_has_the_other_directories_of_the_session() -> None:
    settings = tracker(roots=("/other",))
    settings.mode = Mode.SAFE_YOLO
    assert settings.turn_params()["sandboxPolicy"] == {"type": "workspaceWrite", "writableRoots": ["/other"]}


def test_the_workspace_that_codex_reported_is_used_again() -> None:
    settings = SettingsTracker(Mode.SAFE_YOLO, None, None)
    reported = {"type": "workspaceWrite", "networkAccess": True, "writableRoots": ["/x"]}
    settings.handle_opened(ThreadSettings(sandbox=reported))
    settings.mode = Mode.DEFAULT
    settings.turn_params()
    settings.turn_accepted()
    settings.mode = Mode.SAFE_YOLO
    assert settings.turn_params()["sandboxPolicy"] == reported


def test_model_and_effort_are_named_if_they_were_chosen() -> None:
    assert not {"model", "effort"} & tracker().turn_params().keys()
    params = tracker(model="gpt-x", effort=ReasoningEffort.XHIGH).turn_params()
    assert (params["model"], params["effort"]) == ("gpt-x", "xhigh")
    assert SettingsTracker(Mode.DEFAULT, "gpt-x", None).thread_params()["model"] == "gpt-x"


def test_plan_mode_is_codexs_own_and_names_model_and_effort() -> None:
    settings = tracker(Mode.PLAN, effort=ReasoningEffort.HIGH)
    assert settings.turn_params()["collaborationMode"] == {
        "mode": "plan",
        "settings": {"model": "gpt", "reasoning_effort": "high", "developer_instructions": None},
    }


def test_plan_mode_is_left_once() -> None:
    settings = tracker(Mode.PLAN)
    settings.turn_params()
    settings.turn_accepted()
    settings.mode = Mode.DEFAULT
    assert settings.turn_params()["collaborationMode"]["mode"] == "default"
    settings.turn_accepted()
    assert "collaborationMode" not in settings.turn_params()


def test_a_thread_that_was_left_in_plan_mode_leaves_it() -> None:
    settings = tracker(collaboration_mode={"mode": "plan"})
    assert settings.turn_params()["collaborationMode"]["mode"] == "default"


def test_what_modes_allow() -> None:
    assert {mode for mode in Mode if SettingsTracker(mode, None, None).is_read_only} == {
        Mode.PLAN,
        Mode.READ_ONLY,
    }
    assert {mode for mode in Mode if SettingsTracker(mode, None, None).allows_everything} == {
        Mode.YOLO,
        Mode.BYPASS,
    }
