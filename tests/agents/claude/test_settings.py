"""The permission mode: what we set, and what Claude Code changes by itself."""

from __future__ import annotations

from farsteer.agents.claude.settings import SettingsTracker
from farsteer.core.modes import PermissionMode


def tracker(mode: PermissionMode = PermissionMode.DEFAULT) -> SettingsTracker:
    return SettingsTracker(mode, None, None)


def test_a_mode_that_claude_code_changes_by_itself_is_reported_once() -> None:
    settings = tracker()
    assert settings.handle_mode("plan") is PermissionMode.PLAN
    assert settings.is_read_only
    assert settings.handle_mode("plan") is None


def test_the_report_of_a_mode_that_we_set_is_no_news() -> None:
    settings = tracker()
    settings.set_mode(PermissionMode.YOLO)
    assert settings.handle_mode("acceptEdits") is None
    assert settings.mode is PermissionMode.YOLO


def test_late_reports_do_not_undo_the_last_mode() -> None:
    """Claude Code reports a mode after it has answered, when the next one may be set already."""
    settings = tracker()
    settings.set_mode(PermissionMode.ACCEPT_EDITS)
    settings.set_mode(PermissionMode.READ_ONLY)
    assert [settings.handle_mode(mode) for mode in ("acceptEdits", "default")] == [None, None]
    assert settings.mode is PermissionMode.READ_ONLY


def test_a_mode_with_the_same_native_mode_is_not_reported_and_not_waited_for() -> None:
    settings = tracker(PermissionMode.ACCEPT_EDITS)
    settings.set_mode(PermissionMode.YOLO)
    settings.set_mode(PermissionMode.PLAN)
    assert settings.handle_mode("plan") is None
    assert settings.handle_mode("acceptEdits") is PermissionMode.ACCEPT_EDITS, "the agent has left plan mode"


def test_a_report_that_never_came_does_not_hide_a_later_change() -> None:
    settings = tracker()
    settings.set_mode(PermissionMode.ACCEPT_EDITS)
    settings.set_mode(PermissionMode.DEFAULT)
    settings.forget_reports()
    assert settings.handle_mode("acceptEdits") is PermissionMode.ACCEPT_EDITS


def test_an_unknown_mode_changes_nothing() -> None:
    settings = tracker(PermissionMode.READ_ONLY)
    assert settings.handle_mode("somethingNew") is None
    assert settings.is_read_only
