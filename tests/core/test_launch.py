"""Create or resume, never both: every line of the table of stored states."""

import pytest

from farsteer.core.launch import LaunchDecision, LaunchMode, LaunchRow, decide_launch

ID = "0f9d4a52-5c1e-4f6e-9d3a-0c8b8f0d1a11"
NATIVE = "7924d439-b04f-4a34-8f0e-1d2f3a4b5c6d"


SPARE = "c0ffee00-0000-4000-8000-000000000001"


def decided(stored: LaunchRow, *, chosen: bool = True, transcript: bool = False) -> LaunchDecision:
    return decide_launch(
        stored, agent="demo", caller_chosen_id=chosen, transcript_found=transcript, spare_id=SPARE
    )


def row(**known: object) -> LaunchRow:
    return LaunchRow(**{"session_id": ID, "agent": "demo", **known})


@pytest.mark.parametrize(
    ("stored", "transcript", "expected"),
    [
        (row(native_id=ID, registered=True), False, LaunchDecision(start=LaunchMode.RESUME, native_id=ID)),
        (
            row(native_id=NATIVE, registered=True),
            False,
            LaunchDecision(start=LaunchMode.RESUME, native_id=NATIVE),
        ),
        (row(), True, LaunchDecision(start=LaunchMode.RESUME, native_id=ID)),
        (row(), False, LaunchDecision(start=LaunchMode.CREATE, native_id=ID)),
        (row(native_id=NATIVE), True, LaunchDecision(start=LaunchMode.RESUME, native_id=NATIVE)),
        (row(native_id=ID), False, LaunchDecision(start=LaunchMode.CREATE, native_id=ID)),
        (
            row(session_id="cron-17", native_id=NATIVE, registered=True),
            False,
            LaunchDecision(start=LaunchMode.RESUME, native_id=NATIVE),
        ),
    ],
)
def test_an_agent_that_takes_our_id(stored: LaunchRow, transcript: bool, expected: LaunchDecision) -> None:
    assert decided(stored, transcript=transcript) == expected


def test_a_session_id_that_is_no_uuid_never_reaches_the_agent() -> None:
    assert decided(row(session_id="cron-17")) == LaunchDecision(start=LaunchMode.CREATE, native_id=SPARE)
    named = decided(row(session_id="cron-17"), chosen=False, transcript=True)
    assert named == LaunchDecision(start=LaunchMode.CREATE)


def test_an_agent_that_names_its_own_conversations_gets_no_id() -> None:
    assert decided(row(), chosen=False) == LaunchDecision(start=LaunchMode.CREATE)


def test_a_conversation_of_another_agent_is_never_run() -> None:
    stored = row(agent="codex", native_id=NATIVE, registered=True)
    assert decided(stored).start is LaunchMode.REFUSE


def test_an_unregistered_native_id_is_created_not_resumed() -> None:
    """The handshake is what registers; an id that was only handed out proves nothing."""
    decision = decided(row(native_id=NATIVE))
    assert decision == LaunchDecision(start=LaunchMode.CREATE, native_id=NATIVE)
