"""What becomes of sessions that are created, discarded or reported by a machine."""

import pytest
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import encode
from farsteer.hub.rules.session import (
    MachineItem,
    SessionPhase,
    compare_items,
    compare_sessions,
    first_state,
    phase_after_discard,
    storable_state,
    without_recovery,
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
    assert connected.stored_seqs == {"live": 7, "creating": 0, "not reported": 5}
    assert connected.deleted == ["purging", "deleted"]
    assert connected.unknown == ["never"]
    assert connected.behind == ["not reported"]
    old = without_recovery(connected, reported)
    assert (old.stored_seqs, old.behind, old.items) == ({"live": 7, "creating": 0}, [], {})


@pytest.mark.parametrize(
    ("reported", "phase", "is_behind"),
    [
        (5, SessionPhase.LIVE, False),
        (6, SessionPhase.LIVE, False),
        (4, SessionPhase.LIVE, True),
        (None, SessionPhase.LIVE, True),
        (None, SessionPhase.CREATING, False),
        (None, SessionPhase.PURGING, False),
        (None, SessionPhase.DELETED, False),
    ],
)
def test_a_runner_is_behind_with_sessions_of_which_it_has_less_than_the_hub(
    reported: int | None, phase: SessionPhase, *, is_behind: bool
) -> None:
    named = {} if reported is None else {"s": reported}
    assert compare_sessions(named, {"s": (phase, 5)}).behind == (["s"] if is_behind else [])


HELD, BEHIND = {"s": ["item"]}, {"s"}


@pytest.mark.parametrize(
    ("held", "behind", "state", "was_offered", "differs"),
    [
        # The runner holds it.
        (HELD, (), ItemState.DELIVERED, True, True),
        (HELD, (), ItemState.CANCELLED, False, True),
        (HELD, BEHIND, ItemState.UNKNOWN, True, True),
        (HELD, (), ItemState.ACCEPTED, True, False),
        (HELD, (), ItemState.QUEUED, True, False),
        (HELD, BEHIND, ItemState.HANDED_OVER, True, False),
        # The runner does not.
        ({}, (), ItemState.QUEUED, True, True),
        ({"other": ["item"]}, (), ItemState.HANDED_OVER, True, True),
        ({}, BEHIND, ItemState.DELIVERED, True, False),
        ({}, (), ItemState.ACCEPTED, True, False),
        ({}, BEHIND, ItemState.ACCEPTED, False, False),
        ({}, BEHIND, ItemState.ACCEPTED, True, True),
    ],
)
def test_items_on_which_runner_and_hub_differ(
    held: dict[str, list[str]], behind: set[str], state: ItemState, *, was_offered: bool, differs: bool
) -> None:
    found = compare_items(held, [MachineItem("s", "item", state, was_offered)], behind)
    assert found == ({"s": {"item": state}} if differs else {})


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
    assert storable_state(STATE) == (STATE, encode(STATE), ())


def test_commands_are_stored_apart() -> None:
    commands = (ev.SlashCommand("test", "Run the tests"),)
    assert storable_state(replace(STATE, commands=commands)) == (STATE, encode(STATE), commands)
