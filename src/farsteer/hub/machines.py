"""Machines."""

from __future__ import annotations

from farsteer.core.api import AgentsResponse, MachinesResponse, MachineView
from farsteer.core.commands import Command
from farsteer.hub.caller import Caller
from farsteer.link.messages import Reply


class Machines:
    async def list(self, caller: Caller) -> MachinesResponse:
        raise NotImplementedError

    async def get(self, caller: Caller, machine_id: str) -> MachineView:
        raise NotImplementedError

    async def agents(self, caller: Caller) -> AgentsResponse:
        raise NotImplementedError

    async def call(
        self, machine_id: str, session_id: str, command: Command, *, timeout: float | None = None
    ) -> Reply:
        """Ask the runner; MachineOffline without a live link, the runner's own error raised."""
        raise NotImplementedError
