"""What a session's agent can do, known from what its machine said when it last connected."""

from __future__ import annotations

from farsteer.core.capabilities import Capabilities
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.store.base import Store


async def capabilities(store: Store, row: SessionRow) -> Capabilities:
    """An agent that the machine no longer names can do nothing."""
    machine = await store.get_machine(row.namespace, row.machine_id)
    for agent in machine.agents:
        if agent.name == row.state.agent:
            return agent.capabilities
    return Capabilities()
