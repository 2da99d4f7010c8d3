"""Who gets the lease of a machine, as a table."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farsteer.hub.rules.lease import (
    PROTOCOL_2,
    RETRY_SECONDS,
    Lease,
    LeaseClaim,
    LeaseRefusal,
    StoredConflict,
    decide_lease,
    view_conflict,
)

MACHINE = "8f14e45f-ceea-467f-a8f5-000000000001"
HELD = Lease(generation=7, instance="a", place="disk", boot="monday", host="box", since=1_700_000_000_000)
OLD = Lease(generation=7, host="box", since=1_700_000_000_000)
SAME = LeaseClaim(instance="a", place="disk", boot="monday", host="box")
RESTARTED = replace(SAME, instance="b")
REBOOTED = replace(SAME, instance="b", boot="tuesday")
COPY = LeaseClaim(instance="c", place="other disk", boot="monday", host="laptop")
NO_PLACE = LeaseClaim(instance="c", host="laptop")

GRANTED, SAME_LEASE = 8, 7
WAIT, ASK_THE_OWNER = "wait", "ask the owner"


@pytest.mark.parametrize(
    ("held", "claim", "connected", "wanted"),
    [
        # the same runner reconnects
        (HELD, SAME, True, SAME_LEASE),
        (HELD, SAME, False, SAME_LEASE),
        (HELD, replace(SAME, place="moved", boot=""), True, SAME_LEASE),
        # a new process in the same place
        (HELD, RESTARTED, True, GRANTED),
        (HELD, RESTARTED, False, GRANTED),
        (HELD, REBOOTED, True, WAIT),
        (HELD, REBOOTED, False, GRANTED),
        (replace(HELD, boot=""), replace(RESTARTED, boot=""), True, WAIT),
        # a copy
        (HELD, COPY, True, WAIT),
        (HELD, COPY, False, ASK_THE_OWNER),
        (replace(HELD, released=True), COPY, False, GRANTED),
        (HELD, NO_PLACE, True, WAIT),
        (replace(HELD, place=""), NO_PLACE, False, ASK_THE_OWNER),
        # a copy of the hub's own home, runner included
        (HELD, replace(COPY, in_process=True), False, GRANTED),
        (HELD, replace(COPY, in_process=True), True, WAIT),
        # protocol 2
        (OLD, PROTOCOL_2, True, GRANTED),
        (OLD, PROTOCOL_2, False, GRANTED),
        (OLD, COPY, True, WAIT),
        (OLD, COPY, False, GRANTED),
        (HELD, PROTOCOL_2, True, WAIT),
        (HELD, PROTOCOL_2, False, GRANTED),
        # the first runner of a machine
        (None, COPY, False, 1),
        (None, PROTOCOL_2, False, 1),
        (None, SAME, True, 1),
    ],
)
def test_one_runner_has_the_lease(
    held: Lease | None, claim: LeaseClaim, connected: bool, wanted: object
) -> None:
    decided = decide_lease(held, claim, MACHINE, connected=connected, now=1_800_000_000_000)
    if isinstance(decided, LeaseRefusal):
        assert wanted == (WAIT if decided.retry_after == RETRY_SECONDS else ASK_THE_OWNER)
        assert "box, since 2023-11-14 22:13 UTC" in decided.reason
        assert "farsteer runner --new-identity" in decided.reason
        assert (f"farsteer machines release {MACHINE}" in decided.reason) == (wanted == ASK_THE_OWNER)
        return
    assert decided.generation == wanted
    assert (decided.instance, decided.place, decided.boot) == (claim.instance, claim.place, claim.boot)
    assert not decided.released
    assert decided.since == (HELD.since if wanted == SAME_LEASE else 1_800_000_000_000)


def test_clients_are_told_who_was_refused() -> None:
    assert view_conflict(None) is None
    shown = view_conflict(StoredConflict(instance="c", host="laptop", at=1_700_000_000_000))
    assert shown is not None
    assert (shown.host, shown.at) == ("laptop", 1_700_000_000_000)
    assert "on laptop, at 2023-11-14 22:13 UTC" in shown.message
