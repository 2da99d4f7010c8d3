"""What becomes of sessions that are created, discarded or reported by a machine."""

import pytest
from msgspec.structs import replace

from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import encode
from farsteer.hub.rules.session import (
    SessionPhase,
    compare_sessions,
    first_state,
    phase_after_discard,
    storable_state,
)

SPEC = SessionSpec(id="s", machine_id="m", directory="/work", agent="demo")
STATE = SessionState(id="s", agent="demo", directory="/work")


def test_reported_sessions_are_stored_deleted_or_unknown() -> None:
    reported = {"live": 9, "creating": 1, "purging": 2, "deleted": 3, "never": 4}
    stored = {
        "live": (SessionPhase.LIVE, 7),
        "creating": (SessionPhase.CREATING, 0),
        "purging": (SessionPhase.PURGING, 5),
        "deleted": (SessionPhase.DELETED, 5),
        "not reported": (SessionPhase.LIVE, 5),
    }
    connected = compare_sessions(reported, stored)
    assert connected.stored_seqs == {"live": 7, "creating": 0}
    assert connected.deleted == ["purging", "deleted"]
    assert connected.unknown == ["never"]


def test_the_newer_state_counts() -> None:
    old, new = replace(STATE, seq=1, title="old"), replace(STATE, seq=2, title="new")
    assert first_state(SPEC, old, new) == new
    assert first_state(SPEC, new, old) == new
    assert first_state(SPEC, new, replace(new, title="the same moment")) == new
    assert first_state(SPEC, old, None) == old
    assert first_state(SPEC, None, new) == new


def test_without_any_state_the_spec_counts() -> None:
    assert first_state(SPEC, None, None) == STATE
    assert first_state(replace(SPEC, agent=None), None, None).agent == ""


@pytest.mark.parametrize(
    ("keep_tombstone", "has_copy", "phase"),
    [
        (False, False, None),
        (True, False, SessionPhase.DELETED),
        (False, True, SessionPhase.PURGING),
        (True, True, SessionPhase.PURGING),
    ],
)
def test_a_discarded_creation(keep_tombstone: bool, has_copy: bool, phase: SessionPhase | None) -> None:
    assert phase_after_discard(keep_tombstone=keep_tombstone, has_copy=has_copy) is phase


def test_a_small_state_is_stored_as_it_is() -> None:
    assert storable_state(STATE) == (STATE, encode(STATE))
