import pytest

from farsteer.core.modes import (
    PermissionMode,
    ToolKind,
    allows_more_than_default,
    loosens,
    requested_mode,
    tool_permission,
)

KINDS = (ToolKind.READ, ToolKind.EDIT, ToolKind.EXECUTE, ToolKind.DELETE)


@pytest.mark.parametrize(
    ("mode", "verdicts"),
    [
        ("default", "allow ask ask ask"),
        ("acceptEdits", "allow allow ask ask"),
        ("safe-yolo", "allow allow allow ask"),
        ("yolo", "allow allow allow allow"),
        ("bypassPermissions", "allow allow allow allow"),
        ("plan", "allow deny deny deny"),
        ("read-only", "allow deny deny deny"),
    ],
)
def test_what_each_mode_lets_an_agent_read_edit_execute_and_delete(mode: str, verdicts: str) -> None:
    assert " ".join(tool_permission(PermissionMode(mode), kind) for kind in KINDS) == verdicts


def test_a_tool_of_unknown_kind_is_asked_about_or_refused_unless_everything_is_allowed() -> None:
    free = {mode.value for mode in PermissionMode if tool_permission(mode, ToolKind.OTHER) == "allow"}
    assert free == {"yolo", "bypassPermissions"}


def test_modes_in_which_tools_run_that_would_be_asked_about() -> None:
    loose = {mode.value for mode in PermissionMode if allows_more_than_default(mode)}
    assert loose == {"acceptEdits", "safe-yolo", "yolo", "bypassPermissions"}


def test_a_named_mode_wins_over_the_yolo_switch() -> None:
    assert requested_mode(None, yolo=None) is PermissionMode.DEFAULT
    assert requested_mode(None, yolo=True) is PermissionMode.YOLO
    assert requested_mode(PermissionMode.PLAN, yolo=True) is PermissionMode.PLAN


def test_a_mode_loosens_another_if_some_tool_needs_less_permission() -> None:
    ascending = (
        PermissionMode.PLAN,
        PermissionMode.DEFAULT,
        PermissionMode.ACCEPT_EDITS,
        PermissionMode.SAFE_YOLO,
        PermissionMode.YOLO,
    )
    for number, mode in enumerate(ascending):
        assert not any(loosens(mode, stricter) for stricter in ascending[: number + 1])
        assert all(loosens(mode, looser) for looser in ascending[number + 1 :])
    assert not loosens(PermissionMode.PLAN, PermissionMode.READ_ONLY)
    assert not loosens(PermissionMode.YOLO, PermissionMode.BYPASS)
