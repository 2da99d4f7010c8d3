"""`farsteer pair`."""

from __future__ import annotations

import io

import pytest

from farsteer import AsyncClient
from farsteer.cli.commands import pair
from tests.cli.conftest import RunCommand
from tests.support.stack import Stack

pytestmark = pytest.mark.slow


async def test_the_code_pairs_a_device(hub: Stack, run_command: RunCommand) -> None:
    made = await run_command("pair", "phone", "--scope", "read", "--expires", "30d")
    assert made.code == 0
    code = made.out.strip()
    assert len(code) == 11
    assert hub.url in made.err
    assert "--address" in made.err, "nobody else reaches a loopback address"
    device = await hub.connect()
    answer = await device.post("/api/pairings/redeem", json={"code": code, "label": "Firefox"})
    assert answer.status_code == 201
    listed = await run_command("token", "list")
    assert "phone (Firefox)" in listed.out
    async with AsyncClient(hub.url, answer.json()["secret"]) as client:
        assert len(await client.machines()) == 1


async def test_wrong_arguments_are_refused(hub: Stack, run_command: RunCommand) -> None:
    for wrong in (
        ["--expires", "soon"],
        ["--scope", "all"],
        ["--address", "http://192.0.2.1"],
        ["--address", "https://hub.example/?token=x"],
        ["--address", "https://me:secret@hub.example"],
    ):
        assert (await run_command("pair", *wrong)).code != 0, wrong
    assert (await (await hub.sign_in()).get_json("/api/pairings"))["pairings"] == []


async def test_the_qr_code_has_the_address_and_the_code_in_the_fragment(
    hub: Stack, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    terminal, links = Terminal(), list[str]()
    monkeypatch.setattr("sys.stderr", terminal)
    original = pair.pairing_link
    monkeypatch.setattr(pair, "pairing_link", lambda *args: links.append(original(*args)) or links[0])
    made = await run_command("pair", "--address", "https://hub.example/")
    assert links == [f"https://hub.example/#pair={made.out.strip()}"]
    assert "█" in terminal.getvalue()
    assert "--address" not in terminal.getvalue()
