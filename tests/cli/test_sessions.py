"""`farsteer sessions`, `agents`, `token` and `doctor` at a hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Here
from tests.support.stack import OWNER, Stack


async def test_sessions_from_list_to_delete(hub: Stack, here: Here) -> None:
    empty = await here("sessions")
    assert (empty.code, empty.out) == (0, "")
    assert "no sessions" in empty.err
    account = await hub.sign_in()
    first = await hub.create(account, title="the first one")
    second = await hub.create(account, title="the second \x1b[2Jone")

    listed = await here("sessions")
    assert {line.split()[0] for line in listed.lines[1:]} == {first[:8], second[:8]}
    assert "\x1b" not in listed.out
    shown = await here("sessions", "show", first[:8])
    assert first in shown.out
    assert "the first one" in shown.out
    assert (await here("sessions", "rename", first, "another", "title")).code == 0
    await account.shows(first, title="another title")

    assert (await here("sessions", "stop", first, second)).code == 0
    await account.until(first, "stopped")
    assert (await here("sessions", "resume", first[:8])).code == 0
    await account.until(first, "idle")

    refused = await here("sessions", "delete", first)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert (await here("sessions", "delete", "--yes", first, second)).code == 0
    assert (await here("sessions", "--json")).out == ""


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["show", "00000000"], 1, "00000000"),
        (["show", "00000000-0000-4000-8000-000000000000"], 1, "farsteer sessions"),
        (["show"], 2, "needs an ID"),
        (["list", "x"], 2, "takes no ID"),
        (["explode", "x"], 2, "invalid choice"),
    ],
)
async def test_a_session_that_is_not_there(
    hub: Stack, here: Here, argv: list[str], code: int, said: str
) -> None:
    result = await here("sessions", *argv)
    assert result.code == code
    assert said in result.err


async def test_an_ambiguous_beginning_is_refused(hub: Stack, here: Here) -> None:
    account = await hub.sign_in()
    for _ in range(2):
        await hub.create(account, title="twin")
    result = await here("sessions", "show", "")
    assert result.code == 2
    assert "2 sessions begin with" in result.err
    assert "twin" in result.err


async def test_tokens(hub: Stack, here: Here, home: Path) -> None:
    assert (await here("token")).out == f"{home / 'token'}\n"
    created = await here("token", "create", "build server", "--scope", "read", "--expires", "2h")
    secret = created.out.strip()
    assert len(secret) > 20
    assert secret not in created.err
    listed = await here("token", "list")
    assert "build server" in listed.out
    assert secret not in listed.out
    token_id = next(line.split()[0] for line in listed.lines if "build server" in line)
    assert (await here("token", "revoke", token_id)).code == 0
    assert (await here("token", "revoke", token_id)).code == 1
    assert (await here("token", "create", "x", "--expires", "soon")).code == 2
    assert OWNER not in listed.out


async def test_agents(hub: Stack, here: Here) -> None:
    local = await here("agents")
    assert local.code == 0
    assert "demo" in local.out
    everywhere = await here("agents", "--all")
    assert "demo" in everywhere.out
    help_text = await here("agents", "demo", "--help")
    assert help_text.code == 0
    assert "run <command>" in help_text.out
    assert json.loads((await here("agents", "demo", "--json")).out)["name"] == "demo"
    nobody = await here("agents", "nobody")
    assert nobody.code == 1
    assert "farsteer agents" in nobody.err


async def test_the_doctor_finds_nothing_wrong(hub: Stack, here: Here) -> None:
    result = await here("doctor")
    assert result.code == 0, result.out
    assert f"at {hub.url}" in result.out
    assert "1 of 1 machines connected" in result.out
    assert "agent demo" in result.out


async def test_the_doctor_says_what_is_wrong_and_what_to_do(here: Here, home: Path, free_port: int) -> None:
    fresh = await here("doctor", "--port", str(free_port))
    assert fresh.code == 0
    assert "`farsteer up` starts one" in fresh.out
    assert f"port {free_port} is free" in fresh.out
    (home / "token").write_text("secret-token")
    (home / "token").chmod(0o644)
    home.chmod(0o755)
    result = await here("doctor", "--hub", f"http://127.0.0.1:{free_port}")
    assert result.code == 1
    assert f"chmod 600 {home / 'token'}" in result.out
    assert f"chmod 700 {home}" in result.out
    assert "nothing listens there" in result.out
    assert "secret-token" not in result.out + result.err
