"""Machines: which there are, which have a live link, and how to reach a session's runner."""

from __future__ import annotations

import logging
from typing import Protocol

from farsteer.core.api import AgentOnMachine, AgentsResponse, AgentView, MachinesResponse, MachineView
from farsteer.core.capabilities import MachineInfo
from farsteer.core.commands import Command, Create, Delete, Rewind
from farsteer.core.errors import FarsteerError, MachineOffline
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.metrics import Metrics
from farsteer.hub.store.base import ConnectedMachine, Store
from farsteer.hub.tasks import Tasks
from farsteer.link.messages import Reply

_log = logging.getLogger(__name__)

CALL_SECONDS = 30.0
CREATE_SECONDS = 120.0
"""Agents may be slow to start."""


class LiveLink(Protocol):
    """A machine's link while it lives."""

    number: int
    """Tells this link from every other there was."""
    welcomed: bool
    """The runner takes calls."""

    async def call(self, session_id: str, command: Command, timeout: float) -> Reply: ...

    async def close(self, reason: str) -> None: ...


class Machines:
    def __init__(self, store: Store, tasks: Tasks, metrics: Metrics) -> None:
        self._store = store
        self._tasks = tasks
        self._metrics = metrics
        self._links: dict[tuple[str, str], LiveLink] = {}

    async def list(self, caller: Caller) -> MachinesResponse:
        """All machines of the namespace, active ones first."""
        caller.require(Scope.READ)
        return MachinesResponse(machines=await self._store.list_machines(caller.namespace))

    async def get(self, caller: Caller, machine_id: str) -> MachineView:
        caller.require(Scope.READ)
        return await self._store.get_machine(caller.namespace, machine_id)

    async def agents(self, caller: Caller) -> AgentsResponse:
        """Each kind of agent once, with the active machines that know it; what can be used comes first."""
        caller.require(Scope.READ)
        agents: dict[str, AgentView] = {}
        for machine in await self._store.list_machines(caller.namespace):
            if not machine.active:
                continue
            for info in machine.agents:
                view = agents.setdefault(
                    info.name,
                    AgentView(name=info.name, title=info.title, capabilities=info.capabilities, machines=[]),
                )
                view.machines.append(
                    AgentOnMachine(
                        machine_id=machine.id,
                        available=info.available,
                        version=info.version,
                        reason=info.reason,
                        install=info.install,
                    )
                )
        return AgentsResponse(agents=sorted(agents.values(), key=_usable_first))

    def link_number(self, namespace: str, machine_id: str) -> int | None:
        """Which link takes calls for this machine now, if any."""
        link = self._links.get((namespace, machine_id))
        return link.number if link is not None and link.welcomed else None

    async def ask(self, namespace: str, machine_id: str, session_id: str, command: Command) -> Reply:
        """The runner's answer, good or bad. MachineOffline without a live link, Unavailable without an answer."""
        link = self._links.get((namespace, machine_id))
        if link is None:
            raise MachineOffline
        seconds = CREATE_SECONDS if isinstance(command, Create | Rewind) else CALL_SECONDS
        return await link.call(session_id, command, seconds)

    async def call(self, namespace: str, machine_id: str, session_id: str, command: Command) -> Reply:
        """The runner's good answer; a bad one is raised."""
        reply = await self.ask(namespace, machine_id, session_id, command)
        if reply.error is not None:
            raise reply.error.to_error()
        return reply

    def forget(self, namespace: str, machine_id: str, session_id: str) -> None:
        """Have the runner end and forget a session. One that does not hear it now will be told when it connects."""
        self._tasks.spawn(self._forget(namespace, machine_id, session_id), f"end of {session_id}")

    async def _forget(self, namespace: str, machine_id: str, session_id: str) -> None:
        try:
            await self.call(namespace, machine_id, session_id, Delete())
        except FarsteerError as error:
            _log.info("session %s: the runner has not ended it yet: %s", session_id, error.message)

    # -- what the link server says

    async def connect(
        self, link: LiveLink, namespace: str, machine: MachineInfo, sessions: dict[str, int]
    ) -> ConnectedMachine:
        """`link` is this machine's from now on; one it had before is closed."""
        key = (namespace, machine.id)
        before = self._links.get(key)
        self._links[key] = link
        self._metrics.links = len(self._links)
        if before is not None:
            await before.close("another link of the same machine took its place")
        return await self._store.connect_machine(namespace, machine, sessions, link_id=link.number)

    async def disconnect(self, link: LiveLink, namespace: str, machine_id: str) -> None:
        """`link` has ended; nothing happens if another one has taken its place."""
        key = (namespace, machine_id)
        if self._links.get(key) is not link:
            return
        del self._links[key]
        self._metrics.links = len(self._links)
        await self._store.disconnect_machine(namespace, machine_id, link_id=link.number)


def _usable_first(agent: AgentView) -> tuple[bool, str]:
    return (not any(machine.available for machine in agent.machines), agent.name)
