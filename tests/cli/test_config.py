"""`farsteer config` shows every setting, where its value comes from, and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farsteer.client.settings import SETTINGS
from tests.cli.conftest import RunCommand
from tests.support.stack import OWNER, Stack


async def shown(run_command: RunCommand, *options: str) -> dict[str, tuple[str, str]]:
    result = await run_command("config", "--json", *options)
    assert (result.code, result.err) == (0, "")
    rows = [json.loads(line) for line in result.lines]
    assert len({row["name"] for row in rows}) == len(rows)
    return {row["name"]: (row["value"], row["source"]) for row in rows}


async def test_every_setting_has_a_value_and_a_source(
    run_command: RunCommand, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in SETTINGS:
        for variable in {*setting.variables} - {"FARSTEER_HOME"}:
            monkeypatch.delenv(variable, raising=False)
    rows = await shown(run_command)
    assert {setting.name for setting in SETTINGS} < {*rows}
    assert rows["home"] == (str(home), "$FARSTEER_HOME")
    assert rows["port"] == ("3006", "default")
    assert rows["token"] == ("not set", "default")
    assert rows["hub.limits.sessions"] == ("10000", "default")
    assert {source for name, (_, source) in rows.items() if name != "home"} == {"default"}
    (home / "config.toml").write_text("port = 8080\n")
    (home / "hub.toml").write_text("[limits]\nsessions = 5\n[retention.default]\ndays = 90\n")
    (home / "runner.toml").write_text('roots = ["/srv", "/home"]\n')
    monkeypatch.setenv("FARSTEER_DEBUG", "1")
    rows = await shown(run_command, "--hub", "https://hub.example")
    assert rows["port"] == ("8080", "config.toml")
    assert rows["hub"] == ("https://hub.example", "--hub")
    assert rows["log_level"] == ("debug", "$FARSTEER_DEBUG")
    assert rows["hub.limits.sessions"] == ("5", "hub.toml")
    assert rows["hub.limits.machines"] == ("1000", "default")
    assert rows["hub.retention.default.days"] == ("90", "hub.toml")
    assert rows["runner.roots"] == ("/srv, /home", "runner.toml")
    table = await run_command("config")
    assert any(line.split() == ["port", "config.toml", "8080"] for line in table.lines)


async def test_of_a_secret_only_whether_it_is_set(
    run_command: RunCommand, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "a-secret-that-nobody-may-see"
    monkeypatch.setenv("FARSTEER_HUB", f"https://anna:{secret}@hub.example")
    for name in ("CLI_API_TOKEN", "ANTHROPIC_API_KEY", "GLM_API_KEY"):
        monkeypatch.setenv(name, secret)
    (home / "keys").mkdir(mode=0o700)
    (home / "keys" / "kimi").write_text(secret)
    monkeypatch.delenv("MOONSHOT_API_KEY", raising=False)
    rows = await shown(run_command)
    assert rows["token"] == ("set", "$CLI_API_TOKEN")
    assert rows["claude.key"] == ("set", "$ANTHROPIC_API_KEY")
    assert rows["glm.key"] == ("set", "$GLM_API_KEY")
    assert rows["kimi.key"] == ("set", "keys/kimi")
    assert rows["hub"] == ("https://hub.example", "$FARSTEER_HUB")
    assert secret not in str(rows)
    assert secret not in (await run_command("config")).out


async def test_a_broken_file_is_reported(run_command: RunCommand, home: Path) -> None:
    (home / "runner.toml").write_text("roots = 1\n")
    rows = await shown(run_command)
    assert "runner.toml" in rows["runner.toml"][0]
    (home / "config.toml").write_text("prot = 1\n")
    result = await run_command("config")
    assert (result.code, "config.toml" in result.err, "prot" in result.err) == (2, True, True)


@pytest.mark.slow
async def test_the_running_hub_and_its_token(hub: Stack, run_command: RunCommand, home: Path) -> None:
    rows = await shown(run_command)
    assert rows["hub"] == (hub.url, "hub.json")
    assert rows["token"] == ("set", str(home / "token"))
    assert OWNER not in str(rows)
