"""`farsteer token`, `agents`, `doctor`, `usage` and `import` with a hub."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from farsteer.cli.commands.doctor import Grade, check_capacity, check_limits, check_own_clock
from farsteer.client.config import hub_file
from farsteer.core.api import LimitView
from tests.cli.conftest import RunCommand
from tests.support.stack import OWNER, Stack

pytestmark = pytest.mark.slow


async def test_tokens(hub: Stack, run_command: RunCommand, home: Path) -> None:
    assert (await run_command("token")).out == f"{home / 'token'}\n"
    created = await run_command("token", "create", "build server", "--scope", "read", "--expires", "2h")
    secret = created.out.strip()
    assert len(secret) > 20
    assert secret not in created.err
    listed = await run_command("token", "list")
    assert "build server" in listed.out
    assert secret not in listed.out
    token_id = next(line.split()[0] for line in listed.lines if "build server" in line)
    assert (await run_command("token", "revoke", token_id)).code == 0
    assert (await run_command("token", "revoke", token_id)).code == 1
    assert (await run_command("token", "create", "x", "--expires", "soon")).code == 2
    assert (await run_command("token", "create", "x", "--expires", "4000d")).code == 2
    assert OWNER not in listed.out


async def test_token_list_and_revoke_show_the_tokens_that_a_token_made(
    hub: Stack, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await run_command("token", "create", "parent", "--scope", "admin", "--scope", "read")
    monkeypatch.setenv("CLI_API_TOKEN", made.out.strip())
    await run_command("token", "create", "child", "--scope", "read")
    monkeypatch.delenv("CLI_API_TOKEN")
    listed = {line.split()[-1]: line.split() for line in (await run_command("token", "list")).lines}
    parent_id = listed["parent"][0]
    assert "owner" in listed["parent"]
    assert parent_id in listed["child"]
    revoked = await run_command("token", "revoke", parent_id)
    assert "and 1 made with it" in revoked.err
    assert len((await run_command("token", "list")).lines) == 1


async def test_agents(hub: Stack, run_command: RunCommand) -> None:
    local = await run_command("agents")
    assert local.code == 0
    assert "demo" in local.out
    everywhere = await run_command("agents", "--all")
    assert "demo" in everywhere.out
    help_text = await run_command("agents", "demo", "--help")
    assert help_text.code == 0
    assert "run <command>" in help_text.out
    assert json.loads((await run_command("agents", "demo", "--json")).out)["name"] == "demo"
    nobody = await run_command("agents", "nobody")
    assert nobody.code == 1
    assert "farsteer agents" in nobody.err


async def test_the_doctor_finds_nothing_wrong(hub: Stack, run_command: RunCommand) -> None:
    result = await run_command("doctor")
    assert result.code == 0, result.out
    assert f"at {hub.url}" in result.out
    assert "1 of 1 machines connected" in result.out
    assert "this machine is linked to the hub" in result.out
    assert "agent demo" in result.out
    assert "limits: sessions 0 of 10000, machines 1 of 1000" in result.out


def test_the_doctor_warns_of_limits_that_are_nearly_reached() -> None:
    fine = [LimitView("sessions", 10, 8), LimitView("machines", 10, 0)]
    assert check_limits(fine).grade is Grade.OK
    check = check_limits([*fine, LimitView("sockets", 100, 81)])
    assert (check.grade, check.finding) == (
        Grade.WARN,
        "limits: sessions 8 of 10, machines 0 of 10, sockets 81 of 100",
    )
    assert "raise sockets" in check.advice
    assert "hub.toml" in check.advice


def test_the_doctor_says_how_many_agents_can_run(home: Path) -> None:
    check = check_capacity(home)
    assert "room for " in check.finding
    assert "GiB of memory" in check.finding
    (home / "runner.toml").write_text("live_agents = 3\n")
    check = check_capacity(home)
    assert check.grade is Grade.OK
    assert "room for 3 agents (live_agents = 3 in runner.toml)" in check.finding
    (home / "runner.toml").write_text("live_agents = 100000000\n")
    assert check_capacity(home).grade is Grade.WARN


async def test_the_doctor_says_how_to_fix_problems(
    run_command: RunCommand, home: Path, free_port: int
) -> None:
    fresh = await run_command("doctor", "--port", str(free_port))
    assert fresh.code == 0
    assert "`farsteer up` starts one" in fresh.out
    assert f"port {free_port} is free" in fresh.out
    (home / "token").write_text("secret-token")
    (home / "token").chmod(0o644)
    home.chmod(0o755)
    hub_file(home).write_text(json.dumps({"url": f"http://127.0.0.1:{free_port}", "pid": os.getpid()}))
    result = await run_command("doctor", "--hub", f"http://127.0.0.1:{free_port}")
    assert result.code == 1
    assert f"chmod 600 {home / 'token'}" in result.out
    assert f"chmod 700 {home}" in result.out
    assert "nothing listens there" in result.out
    assert "secret-token" not in result.out + result.err


async def test_the_doctor_names_a_file_of_settings_that_cannot_be_read(
    run_command: RunCommand, home: Path
) -> None:
    for name in ("config.toml", "hub.toml"):
        (home / name).write_text("prot = 1\n")
        result = await run_command("doctor")
        assert result.code == 1
        assert f"FAIL  {home / name}" in result.out
        (home / name).unlink()


def test_the_doctor_notices_a_clock_that_is_behind_without_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_own_clock() is None
    monkeypatch.setattr("farsteer.cli.commands.doctor.time.time", lambda: 1_000_000.0)
    clock = check_own_clock()
    assert clock is not None
    assert clock.grade is Grade.WARN


async def test_usage_and_import(hub: Stack, run_command: RunCommand) -> None:
    nothing = await run_command("usage")
    assert (nothing.code, nothing.out) == (0, "")
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.turn(session, "remember the dolphin")

    by_session = await run_command("usage", "--by", "session")
    assert [line.split()[:2] for line in by_session.lines[1:]] == [[session[:8], "1"], ["all", "1"]]
    assert len((await run_command("usage", "--by", "turn", "--session", session[:8])).lines) == 3
    assert json.loads((await run_command("usage", "--json")).out)["total"]["turns"] == 1
    assert (await run_command("usage", "--since", "yesterday")).code == 2

    listed = await run_command("import", "demo")
    assert session[:8] in listed.lines[1]
    assert "remember the dolphin" in listed.lines[1]
    assert (await run_command("import", "demo", "--directory", "/nowhere")).out == ""
    assert (await run_command("import", "demo", "ffff")).code == 1
    native = json.loads((await run_command("import", "demo", "--json")).out)["nativeId"]
    again = await run_command("import", "demo", native)
    assert again.code == 1
    assert session in again.err


async def test_machines(hub: Stack, run_command: RunCommand) -> None:
    (machine,) = (await (await hub.sign_in()).get_json("/api/machines"))["machines"]
    listed = await run_command("machines")
    assert machine["id"][:8] in listed.out
    assert "yes" in listed.out
    assert json.loads((await run_command("machines", "--json")).out)["conflict"] is None
    refused = await run_command("machines", "release", machine["id"][:8])
    assert refused.code == 1
    assert "this machine is connected: stop its runner first" in refused.err
    await hub.stop_runner()
    released = await run_command("machines", "release", machine["id"][:8])
    assert released.code == 0
    assert machine["id"] in released.err
    assert (await run_command("machines", "release")).code == 2
    assert (await run_command("machines", "list", "x")).code == 2


async def test_a_machine_is_forgotten(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    (machine,) = (await account.get_json("/api/machines"))["machines"]
    await hub.create(account)
    connected = await run_command("machines", "forget", machine["id"][:8])
    assert (connected.code, "connected" in connected.err) == (1, True)
    await hub.stop_runner()
    refused = await run_command("machines", "forget", machine["id"][:8])
    assert (refused.code, "--delete-sessions" in refused.err) == (1, True)
    unconfirmed = await run_command("machines", "forget", machine["id"][:8], "--delete-sessions")
    assert (unconfirmed.code, "--yes" in unconfirmed.err) == (2, True)
    done = await run_command("machines", "forget", machine["id"][:8], "--delete-sessions", "--yes")
    assert (done.code, machine["id"] in done.err) == (0, True)
    assert (await account.get_json("/api/machines"))["machines"] == []
    assert (await account.get_json("/api/sessions"))["sessions"] == []
    assert (await run_command("machines", "forget")).code == 2
