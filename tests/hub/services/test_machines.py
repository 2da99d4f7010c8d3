"""Machines and the agents on them."""

import pytest

from farsteer.core.errors import ErrorCode, NotFound
from farsteer.hub import Hub
from tests.hub.scripted import ScriptedRunner, caller

ME = caller()


async def test_agents_are_listed_once_with_the_machines_that_have_them(hub: Hub) -> None:
    async with ScriptedRunner(hub) as first, ScriptedRunner(hub) as second:
        (demo,) = (await hub.machines.agents(ME)).agents
        assert {at.machine_id for at in demo.machines} == {first.info.id, second.info.id}
        assert (await hub.machines.agents(caller("other"))).agents == []
    assert (await hub.machines.agents(ME)).agents == []
    listed = (await hub.machines.list(ME)).machines
    assert [view.active for view in listed] == [False, False]
    with pytest.raises(NotFound) as error:
        await hub.machines.get(caller("other"), first.info.id)
    assert error.value.code is ErrorCode.MACHINE_NOT_FOUND
