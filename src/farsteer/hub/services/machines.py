"""Machines and the agents installed on them."""

from __future__ import annotations

from farsteer.core.api import AgentOnMachine, AgentsResponse, AgentView, Done, MachinesResponse, MachineView
from farsteer.core.capabilities import Capabilities
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.store.base import SessionFilter, Store

_PAGE = 200


class Machines:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self, caller: Caller, *, active: bool | None = None) -> MachinesResponse:
        """Return the machines of the namespace, active ones first; with `active` only those that are, or are not."""
        caller.require(Scope.READ)
        machines = await self._store.list_machines(caller.namespace)
        if active is not None:
            machines = [machine for machine in machines if machine.active is active]
        return MachinesResponse(machines=machines)

    async def get(self, caller: Caller, machine_id: str) -> MachineView:
        caller.require(Scope.READ)
        return await self._store.get_machine(caller.namespace, machine_id)

    async def remove(self, caller: Caller, machine_id: str, *, delete_sessions: bool = False) -> Done:
        """Forget a machine that is not connected, and its key; with `delete_sessions` also its sessions.

        It may connect again, as a new machine, while its token is valid. What its runner still has of the deleted
        sessions is deleted then. Raises Conflict if it is connected, or has sessions that are not to be deleted.
        """
        caller.require(Scope.ADMIN)
        machine = await self._store.get_machine(caller.namespace, machine_id)
        where = SessionFilter(machine_id=machine_id)
        while delete_sessions and not machine.active:
            rows = await self._store.list_sessions(caller.namespace, where, limit=_PAGE, after=None)
            for row in rows:
                await self._store.delete_session(caller.namespace, row.id)
            if len(rows) < _PAGE:
                break
        await self._store.remove_machine(caller.namespace, machine_id)
        return Done()

    async def release(self, caller: Caller, machine_id: str) -> Done:
        """Let another runner with the machine's identity act as it. Raises Conflict if the machine is connected."""
        caller.require(Scope.ADMIN)
        await self._store.release_machine(caller.namespace, machine_id)
        return Done()

    async def agents(self, caller: Caller) -> AgentsResponse:
        """Return each agent once, with the active machines that know it. Available agents come first."""
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
                        login=info.login,
                        warning=info.warning,
                        models=info.models,
                    )
                )
        return AgentsResponse(agents=sorted(agents.values(), key=_sort_key))

    async def capabilities(self, session: SessionRow) -> Capabilities:
        """Return what the session's agent can do, as its machine reported when it last connected.

        An agent that the machine does not report has no capabilities.
        """
        machine = await self._store.get_machine(session.namespace, session.machine_id)
        for agent in machine.agents:
            if agent.name == session.state.agent:
                return agent.capabilities
        return Capabilities()


def _sort_key(agent: AgentView) -> tuple[bool, str]:
    return (not any(machine.available for machine in agent.machines), agent.name)
