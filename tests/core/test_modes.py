import pytest

from farsteer.core.modes import PermissionMode as M
from farsteer.core.modes import ToolKind as T
from farsteer.core.modes import Verdict as V
from farsteer.core.modes import requested_mode, verdict


@pytest.mark.parametrize(
    ("mode", "read", "edit", "execute", "delete"),
    [
        (M.DEFAULT, V.ALLOW, V.ASK, V.ASK, V.ASK),
        (M.ACCEPT_EDITS, V.ALLOW, V.ALLOW, V.ASK, V.ASK),
        (M.SAFE_YOLO, V.ALLOW, V.ALLOW, V.ALLOW, V.ASK),
        (M.YOLO, V.ALLOW, V.ALLOW, V.ALLOW, V.ALLOW),
        (M.BYPASS, V.ALLOW, V.ALLOW, V.ALLOW, V.ALLOW),
        (M.PLAN, V.ALLOW, V.DENY, V.DENY, V.DENY),
        (M.READ_ONLY, V.ALLOW, V.DENY, V.DENY, V.DENY),
    ],
)
def test_what_each_mode_lets_an_agent_do(mode: M, read: V, edit: V, execute: V, delete: V) -> None:
    kinds = (T.READ, T.EDIT, T.EXECUTE, T.DELETE)
    assert tuple(verdict(mode, kind) for kind in kinds) == (read, edit, execute, delete)


def test_a_tool_of_unknown_kind_is_asked_about_or_refused_unless_everything_is_allowed() -> None:
    free = {mode for mode in M if verdict(mode, T.OTHER) is V.ALLOW}
    assert free == {M.YOLO, M.BYPASS}


def test_a_named_mode_wins_over_the_yolo_switch() -> None:
    assert requested_mode(None, yolo=None) is M.DEFAULT
    assert requested_mode(None, yolo=True) is M.YOLO
    assert requested_mode(M.PLAN, yolo=True) is M.PLAN
