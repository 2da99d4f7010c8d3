"""How the machine of a new session is chosen."""

import socket

import pytest

from farsteer.client.machines import choose_machine
from farsteer.core.api import MachineView
from farsteer.core.errors import BadRequest, ErrorCode, MachineOffline, NotFound


def machine(id: str, host: str = "far", active: bool = True, name: str | None = None) -> MachineView:
    return MachineView(
        id=id, active=active, active_at=0, created_at=0, host=host, platform="linux", version="1", name=name,
        agents=(), roots=(),
    )  # fmt: skip


def test_the_only_active_machine() -> None:
    assert choose_machine([machine("a", active=False), machine("b")]).id == "b"


def test_this_machine_among_several() -> None:
    here = machine("b", socket.gethostname())
    assert choose_machine([machine("a"), here, machine("c")]).id == "b"


def test_an_ambiguous_choice_is_an_error() -> None:
    with pytest.raises(BadRequest, match="2 machines") as caught:
        choose_machine([machine("a"), machine("b")])
    assert caught.value.details["machines"] == ["far (a)", "far (b)"]
    assert "far (a), far (b)" in caught.value.message


def test_two_machines_of_one_name_are_told_apart_by_their_ids() -> None:
    twins = [machine("id-1", name="build"), machine("id-2", name="build")]
    with pytest.raises(BadRequest) as caught:
        choose_machine(twins, "build")
    assert "name one by its id: build (id-1), build (id-2)" in caught.value.message


def test_none_connected() -> None:
    with pytest.raises(MachineOffline, match="farsteer runner"):
        choose_machine([machine("a", active=False)])


def test_by_id_beginning_name_or_host() -> None:
    machines = [
        machine("abc-1", "one"),
        machine("abd-2", "two", name="build"),
        machine("xyz", "two", active=False),
    ]
    for wanted, found in {
        "abc-1": "abc-1",
        "abc": "abc-1",
        "one": "abc-1",
        "build": "abd-2",
        "two": "abd-2",
    }.items():
        assert choose_machine(machines, wanted).id == found
    with pytest.raises(BadRequest, match="fits 2 machines"):
        choose_machine(machines, "ab")
    with pytest.raises(NotFound) as caught:
        choose_machine(machines, "nowhere")
    assert caught.value.code is ErrorCode.MACHINE_NOT_FOUND
