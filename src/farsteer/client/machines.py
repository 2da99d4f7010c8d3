"""Chooses the machine a session runs on."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from farsteer.core.api import MachineView
from farsteer.core.errors import BadRequest, ErrorCode, MachineOffline, NotFound

_SHOWN = 10
"""How many machines the message of an error lists."""


def choose_machine(machines: Sequence[MachineView], wanted: str | None = None) -> MachineView:
    """Return the machine that `wanted` names, or the obvious one.

    Args:
        machines: All machines of the hub.
        wanted: The id of a machine, its first characters, a name or a host. None chooses the only machine that is
            active; if there are several, the one with this host name.

    Raises:
        NotFound: No machine is called `wanted` (`machine_not_found`).
        BadRequest: Several machines fit. The details list them as `machines`.
        MachineOffline: None was named, and none is active.
    """
    if wanted is not None:
        return _find_machine(machines, wanted)
    active = [machine for machine in machines if machine.active]
    if not active:
        raise MachineOffline("no machine is connected to the hub: connect one with `farsteer runner`")
    here = [machine for machine in active if machine.host == socket.gethostname()]
    for candidates in (active, here):
        if len(candidates) == 1:
            return candidates[0]
    raise _ambiguous(f"{len(active)} machines are active", active)


def _find_machine(machines: Sequence[MachineView], wanted: str) -> MachineView:
    exact = [machine for machine in machines if wanted in (machine.id, machine.name, machine.host)]
    found = exact or [machine for machine in machines if machine.id.startswith(wanted)]
    # A host that was set up again is listed twice; the active entry is the current one.
    if len(found) > 1:
        found = [machine for machine in found if machine.active] or found
    if not found:
        raise NotFound(f"there is no machine {wanted!r}", code=ErrorCode.MACHINE_NOT_FOUND)
    if len(found) > 1:
        raise _ambiguous(f"{wanted!r} fits {len(found)} machines", found)
    return found[0]


def _ambiguous(what: str, machines: Sequence[MachineView]) -> BadRequest:
    labels = [_label(machine) for machine in machines]
    shown = ", ".join(labels[:_SHOWN]) + (", …" if len(labels) > _SHOWN else "")
    return BadRequest(f"{what}; name one by its id: {shown}", machines=labels)


def _label(machine: MachineView) -> str:
    return f"{machine.name or machine.host} ({machine.id})"
