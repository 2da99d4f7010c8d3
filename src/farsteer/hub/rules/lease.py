"""Which runner may act as a machine. Whatever was copied, at most one at a time.

A home directory that is copied takes the machine's id and key along, so a second runner can prove the same identity.
The hub therefore gives a lease to one of them. It passes to another runner only if the first is known to be gone, or
has said that it ends, or the owner of the hub has released it: a runner without a link may still be working.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from farsteer.core.capabilities import MachineConflict
from farsteer.core.wire import WireStruct

RETRY_SECONDS = 5.0
"""When a refused runner tries again, while another one is connected."""


class LeaseClaim(Struct, frozen=True):
    """A runner that asks for the lease; see `link.messages.Hello`. A runner of protocol 2 has no instance."""

    instance: str = ""
    place: str = ""
    boot: str = ""
    host: str = ""
    in_process: bool = False
    """It runs in the process of the hub, on the hub's own home: the two were moved or restored together."""
    last: int = 0
    """The generation of the last lease that a hub gave it. 0 if it does not know."""


PROTOCOL_2 = LeaseClaim()


class Lease(WireStruct):
    """Who has the lease, or had it last."""

    generation: int
    instance: str = ""
    place: str = ""
    boot: str = ""
    host: str = ""
    since: int = 0
    released: bool = False


class LeaseRefusal(Struct, frozen=True):
    reason: str
    """For the owner of the refused runner."""
    retry_after: float = 0.0
    """Seconds after which it may be different. 0 if somebody has to do something first."""
    is_new: bool = True
    """The same runner was not refused before. It tries again and again, but is reported once."""


class StoredConflict(WireStruct):
    """The runner that was refused last."""

    instance: str
    host: str
    at: int


def decide_lease(
    held: Lease | None, claim: LeaseClaim, machine_id: str, *, connected: bool, now: int
) -> Lease | LeaseRefusal:
    """Return the lease of the claimant, or why it gets none.

    Args:
        held: The last lease of the machine.
        claim: Who asks for it.
        machine_id: Named in the refusal.
        connected: Whether the holder's link is open.
        now: The time in milliseconds.
    """
    if held is None:
        return _grant(1, claim, now)
    if claim.instance and claim.instance == held.instance:
        return _grant(held.generation, claim, held.since)
    refusal = _refusal_while_connected(held, claim) if connected else _refusal_after(held, claim, machine_id)
    return refusal or _grant(held.generation + 1, claim, now)


def _grant(generation: int, claim: LeaseClaim, since: int) -> Lease:
    return Lease(
        generation=generation, instance=claim.instance, place=claim.place, boot=claim.boot, host=claim.host,
        since=since,
    )  # fmt: skip


def _refusal_while_connected(held: Lease, claim: LeaseClaim) -> LeaseRefusal | None:
    if not held.instance and not claim.instance:
        return None  # Two runners of protocol 2 cannot be told apart: the newer link counts.
    if _is_same(held.place, claim.place) and _is_same(held.boot, claim.boot):
        return None  # The lock of the home is free, so the holder is dead.
    return LeaseRefusal(
        f"another runner with the identity of this machine is connected, from {_holder(held)}. Stop one of the two."
        " If this home directory is a copy, give it an identity of its own: `farsteer runner --new-identity`",
        RETRY_SECONDS,
    )


def _refusal_after(held: Lease, claim: LeaseClaim, machine_id: str) -> LeaseRefusal | None:
    can_be_told_apart = bool(held.instance and claim.instance)
    if held.released or claim.in_process or not can_be_told_apart or _is_same(held.place, claim.place):
        return None
    return LeaseRefusal(
        f"the runner with the identity of this machine is another one, on {_holder(held)}. It is not connected, but it"
        " may be working. If this home directory is a copy, give it an identity of its own: `farsteer runner"
        " --new-identity`. If the other runner is gone for good, let this one take its place:"
        f" `farsteer machines release {machine_id}`"
    )


def _is_same(one: str, other: str) -> bool:
    """Empty means unknown, which is the same as nothing."""
    return bool(one) and one == other


def _holder(held: Lease) -> str:
    return f"{held.host or 'an unknown host'}, since {format_time(held.since)}"


def format_time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def view_conflict(conflict: StoredConflict | None) -> MachineConflict | None:
    if conflict is None:
        return None
    message = (
        f"another runner with the identity of this machine was refused, on {conflict.host or 'an unknown host'}, at"
        f" {format_time(conflict.at)}. Stop it, or, if its home directory is a copy, run `farsteer runner"
        " --new-identity` there"
    )
    return MachineConflict(host=conflict.host, at=conflict.at, message=message)
