"""The adapter finds the installed CLI, its version and what it can do."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import msgspec
import pytest

from farsteer.agents.droid import cli
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.agents.process import program as process_program
from farsteer.agents.process.environment import scrub_environment
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, NotCapable
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.modes import ReasoningEffort
from tests.agents.droid.fake_droid import OutputRecorder, plan


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def machine(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Droid."""
    monkeypatch.delenv(cli.PROGRAM.variable, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


async def test_a_missing_droid_is_reported_with_its_install_command(machine: Path) -> None:
    info = await DroidAdapter().detect()
    assert (info.available, info.reason) == (False, "no droid on PATH")
    assert info.install is not None
    with pytest.raises(AgentError) as caught:
        await DroidAdapter().start(plan(), OutputRecorder())
    assert caught.value.code is ErrorCode.AGENT_NOT_INSTALLED


@pytest.mark.slow
async def test_droid_is_found_on_path_and_asked_once_for_its_version(machine: Path) -> None:
    calls = machine / "calls"
    program(machine / "bin" / "droid", f'echo "$FACTORY_DROID_AUTO_UPDATE_ENABLED" >> {calls}; echo 0.99.7')
    for _ in range(2):
        info = await DroidAdapter().detect()
        assert (info.available, info.version, info.reason) == (True, "0.99.7", None)
    assert calls.read_text() == "false\n"


@pytest.mark.slow
async def test_a_new_version_is_noticed(machine: Path) -> None:
    path = program(machine / "bin" / "droid", "echo 0.99.8")
    assert (await DroidAdapter().detect()).version == "0.99.8"
    program(path, "echo 0.100.10")
    assert (await DroidAdapter().detect()).version == "0.100.10"


@pytest.mark.slow
async def test_another_executable_can_be_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(machine / "bin" / "droid", "echo 1.0.0")
    monkeypatch.setenv(cli.PROGRAM.variable, str(program(machine / "opt" / "my-droid", "echo 2.0.0")))
    assert (await DroidAdapter().detect()).version == "2.0.0"
    assert (await DroidAdapter(str(machine / "bin" / "droid")).detect()).version == "1.0.0"


@pytest.mark.slow
async def test_the_location_of_the_installer_is_searched(machine: Path) -> None:
    program(Path.home() / ".local" / "bin" / "droid", "echo 3.0.0")
    assert (await DroidAdapter().detect()).version == "3.0.0"


async def test_the_version_is_read_from_the_npm_package(machine: Path) -> None:
    package = machine / "node_modules" / "@factory" / "cli-linux-x64"
    path = program(package / "bin" / "droid", "exit 1")
    (package / "package.json").write_text(
        json.dumps({"name": "@factory/cli-linux-x64", "version": "0.215.0"})
    )
    assert (await DroidAdapter(str(path)).detect()).version == "0.215.0"


@pytest.mark.slow
async def test_a_droid_that_does_not_report_its_version_is_not_available(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_program, "_VERSION_TIMEOUT", 0.2)
    program(machine / "bin" / "droid", "exec sleep 60")
    info = await DroidAdapter().detect()
    assert (info.available, info.version) == (False, None)
    assert "version" in str(info.reason)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "rewinds"), [("0.99.0", False), ("0.117.0", False), ("0.215.0", True), ("1.2.3", True)]
)
async def test_capabilities_depend_on_the_version(machine: Path, version: str, rewinds: bool) -> None:
    program(machine / "bin" / "droid", f"echo {version}")
    adapter = DroidAdapter()
    info = await adapter.detect()
    assert (info.capabilities.rewind, adapter.capabilities.rewind) == (rewinds, rewinds)
    assert DroidAdapter().capabilities.rewind, "detecting one version changes no other adapter"
    if not rewinds:
        with pytest.raises(NotCapable):
            await adapter.start(plan("x", cut_at="m1"), OutputRecorder())


def test_droid_sees_factorys_variables_and_none_of_ours() -> None:
    machine = {"FACTORY_API_KEY": "k", "FACTORY_API_BASE_URL": "u", "OTHER_KEY": "o", "FARSTEER_TOKEN": "t"}
    seen = scrub_environment(machine, DroidAdapter.environment_names)
    assert seen == {"FACTORY_API_KEY": "k", "FACTORY_API_BASE_URL": "u"}


async def test_a_conversation_of_another_agent_is_refused(machine: Path) -> None:
    program(machine / "bin" / "droid", "echo 1.0.0")
    foreign = msgspec.structs.replace(plan(), decision=LaunchDecision(start=LaunchMode.REFUSE))
    with pytest.raises(AgentError, match="another agent"):
        await DroidAdapter().start(foreign, OutputRecorder())


def test_a_transcript_needs_at_least_one_message(machine: Path) -> None:
    session, empty = new_id(), new_id()
    folder = Path.home() / ".factory" / "sessions" / "-some-project"
    folder.mkdir(parents=True)
    begun = json.dumps({"type": "session_start", "id": session}, separators=(",", ":"))
    said = json.dumps({"type": "message", "id": "m1", "message": {"role": "user"}}, separators=(",", ":"))
    (folder / f"{session}.jsonl").write_text(f"{begun}\n{said}\n")
    (folder / f"{empty}.jsonl").write_text(f"{begun}\n")
    adapter = DroidAdapter()
    assert adapter.has_transcript(session, "")
    assert not adapter.has_transcript(empty, "")
    assert not adapter.has_transcript(new_id(), "")
    assert not adapter.has_transcript("../-some-project/*", "")


@pytest.mark.slow
async def test_a_droid_without_a_login_says_how_to_log_in(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Droid 0.215 does: "Please log in using /login or set a valid FACTORY_API_KEY environment variable"."""
    monkeypatch.delenv("FACTORY_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(machine))
    assert (await DroidAdapter().detect()).login is None, "it is not installed"
    program(machine / "bin" / "droid", "echo 0.215.0")
    login = (await DroidAdapter().detect()).login
    assert login is not None
    assert "/login" in login
    assert "FACTORY_API_KEY" in login
    monkeypatch.setenv("FACTORY_API_KEY", "fk-test")
    assert (await DroidAdapter().detect()).login is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("auth.v2.file", "x"),
        ("auth.v2.keyring", "x"),
        ("auth.encrypted", "x"),
        ("settings.json", '{"customModels": [{"model": "m"}]}'),
        ("config.json", '{"custom_models": [{"model": "m"}]}'),
    ],
)
def test_a_login_or_a_model_of_its_own_is_enough(tmp_path: Path, name: str, content: str) -> None:
    environment = {"HOME": str(tmp_path)}
    (tmp_path / ".factory").mkdir()
    (tmp_path / ".factory" / "settings.json").write_text('{"customModels": []}')
    assert not cli.is_logged_in(environment)
    (tmp_path / ".factory" / name).write_text(content)
    assert cli.is_logged_in(environment)


def test_what_droid_has_listed_is_all_it_has_but_for_the_owners_own_models() -> None:
    adapter = DroidAdapter()
    adapter.check_settings("anything", ReasoningEffort.XHIGH, None)
    adapter.set_models(("model-a", "model-b"), {"model-b": ("none", "high")})
    with pytest.raises(BadRequest, match="has no model model-z; it has model-a, model-b") as unknown:
        adapter.check_settings("model-z", None, None)
    assert unknown.value.code is ErrorCode.MODEL_UNKNOWN
    for model, current in (("model-b", "model-a"), (None, "model-b")):
        with pytest.raises(BadRequest, match="has no reasoning effort xhigh; it has none, high") as effort:
            adapter.check_settings(model, ReasoningEffort.XHIGH, current)
        assert effort.value.code is ErrorCode.EFFORT_UNKNOWN
    adapter.check_settings("model-b", ReasoningEffort.HIGH, None)
    adapter.check_settings("model-a", ReasoningEffort.XHIGH, "model-b")  # its efforts are not known
    adapter.check_settings("custom:Mine-7", ReasoningEffort.XHIGH, "model-b")
