"""Which machine a session runs on, where the caller did not say or said it briefly."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from farsteer.core.api import MachineView
from farsteer.core.errors import BadRequest, ErrorCode, MachineOffline, NotFound


def choose_machine(machines: Sequence[MachineView], wanted: str | None = None) -> MachineView:
    """The machine of that id, beginning of an id, name or host; without one the only active machine, else this one."""
    if wanted is not None:
        return _named(machines, wanted)
    active = [machine for machine in machines if machine.active]
    if not active:
        raise MachineOffline("no machine is connected to the hub: start one with `farsteer runner`")
    here = [machine for machine in active if machine.host == socket.gethostname()]
    for choice in (active, here):
        if len(choice) == 1:
            return choice[0]
    raise BadRequest(
        f"{len(active)} machines are active: say which one", machines=[_label(machine) for machine in active]
    )


def _named(machines: Sequence[MachineView], wanted: str) -> MachineView:
    exact = [machine for machine in machines if wanted in (machine.id, machine.name, machine.host)]
    found = exact or [machine for machine in machines if machine.id.startswith(wanted)]
    # A host that was set up anew has an old entry too; the one that lives is meant.
    if len(found) > 1:
        found = [machine for machine in found if machine.active] or found
    if not found:
        raise NotFound(f"no machine {wanted!r}", code=ErrorCode.MACHINE_NOT_FOUND)
    if len(found) > 1:
        raise BadRequest(f"{wanted!r} is more than one machine", machines=[_label(m) for m in found])
    return found[0]


def _label(machine: MachineView) -> str:
    return f"{machine.name or machine.host} ({machine.id})"
