from __future__ import annotations

import stat
from pathlib import Path

import pytest

from farsteer.agents.registry import AgentRegistry
from farsteer.core.capabilities import AgentInfo, MachineInfo
from farsteer.core.errors import BadRequest
from farsteer.core.ids import is_uuid
from farsteer.runner.machine import (
    RunnerSettings,
    describe,
    load_settings,
    machine_id,
    machine_key,
    preferred_agent,
)


def agent(name: str, *, available: bool = True, login: str | None = None) -> AgentInfo:
    return AgentInfo(name=name, title=name, available=available, login=login)


def test_a_machine_keeps_its_id(tmp_path: Path) -> None:
    first = machine_id(tmp_path)
    assert is_uuid(first)
    assert machine_id(tmp_path) == first


def test_a_truncated_id_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "machine-id").write_text("0f9d4a52-5c")
    assert is_uuid(machine_id(tmp_path))


async def test_a_machine_names_its_agents_with_versions(tmp_path: Path) -> None:
    info = await describe(tmp_path, RunnerSettings(name="the big one"), AgentRegistry(tmp_path))
    demo = next(one for one in info.agents if one.name == "demo")
    assert demo.available
    assert demo.version
    assert info.name == "the big one"


def test_a_session_that_names_no_agent_gets_the_first_preferred_one_that_is_installed() -> None:
    info = MachineInfo(
        id="m", host="h", platform="linux", version="0",
        agents=(
            agent("demo"), agent("codex"), agent("claude", available=False), agent("droid", login="run `droid`"),
        ),
    )  # fmt: skip
    assert preferred_agent(info, RunnerSettings(agents=("claude", "codex"))) == "codex"
    assert preferred_agent(info, RunnerSettings(agents=("claude",))) == "demo"
    assert preferred_agent(info, RunnerSettings(agents=("droid", "codex"))) == "codex", "it is logged in"
    assert preferred_agent(info, RunnerSettings(agents=("droid",))) == "droid"


def test_invalid_settings_are_refused_with_the_reason(tmp_path: Path) -> None:
    assert load_settings(tmp_path) == RunnerSettings()
    (tmp_path / "runner.toml").write_text('roots = ["/srv"]\nagents = ["codex"]\n')
    assert load_settings(tmp_path).roots == ("/srv",)
    (tmp_path / "runner.toml").write_text("rots = []\n")
    with pytest.raises(BadRequest, match="rots"):
        load_settings(tmp_path)


def test_the_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    key = machine_key(tmp_path)
    assert stat.S_IMODE((tmp_path / "machine.key").stat().st_mode) == 0o600
    assert machine_key(tmp_path).public == key.public
    (tmp_path / "machine.key").write_bytes(b"short")
    with pytest.raises(BadRequest, match="DELETE /api/machines"):
        machine_key(tmp_path)


@pytest.mark.parametrize("name", ["CLI_API_TOKEN", "FARSTEER_TOKEN", "FARSTEER_*"])
def test_settings_that_give_agents_a_credential_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "runner.toml").write_text(f'environment = ["MY_KEY", "{name}"]\n')
    with pytest.raises(BadRequest, match="no agent may see"):
        load_settings(tmp_path)


def test_settings_behind_a_symbolic_link_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('roots = ["/"]\n')
    (tmp_path / "runner.toml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadRequest, match="symbolic link"):
        load_settings(tmp_path)
