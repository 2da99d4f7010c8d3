"""The command line and the environment of a launch."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import LaunchPlan
from farsteer.agents.claude.arguments import arguments, environment, mcp_servers
from farsteer.core.errors import BadRequest
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.modes import PermissionMode, ReasoningEffort

SESSION, SOURCE = new_id(), new_id()


def plan(start: LaunchMode = LaunchMode.CREATE, native_id: str | None = SESSION, **more: Any) -> LaunchPlan:
    decision = LaunchDecision(start=start, native_id=native_id)
    return msgspec.structs.replace(
        LaunchPlan(session_id=SESSION, directory="/project", generation=1, decision=decision), **more
    )


def options(given: LaunchPlan) -> dict[str, str]:
    """Return each option with what follows it."""
    argv = arguments(given)
    following = [*argv[1:], ""]
    return {one: "" if after.startswith("--") else after for one, after in zip(argv, following, strict=True)}


def test_a_new_conversation_gets_the_id_of_the_session() -> None:
    found = options(plan())
    assert found["--session-id"] == SESSION
    assert not found.keys() & {"--resume", "--fork-session", "--resume-session-at", "--model", "--settings"}


def test_a_conversation_is_resumed_under_its_own_id() -> None:
    found = options(plan(LaunchMode.RESUME, SOURCE))
    assert found["--resume"] == SOURCE
    assert "--session-id" not in found


def test_a_rewind_resumes_up_to_the_anchor() -> None:
    found = options(plan(LaunchMode.RESUME, SOURCE, cut_at="anchor"))
    assert (found["--resume"], found["--resume-session-at"]) == (SOURCE, "anchor")
    assert "--fork-session" not in found


def test_a_fork_has_an_id_of_its_own() -> None:
    found = options(plan(fork_of=SOURCE, cut_at="anchor"))
    assert (found["--resume"], found["--session-id"]) == (SOURCE, SESSION)
    assert found["--resume-session-at"] == "anchor"
    assert "--fork-session" in found


@pytest.mark.parametrize("bad", ["../escape", "--settings", ""])
def test_what_is_no_id_never_becomes_an_argument(bad: str) -> None:
    with pytest.raises(BadRequest):
        arguments(plan(fork_of=bad))
    if bad:
        with pytest.raises(BadRequest):
            arguments(plan(LaunchMode.RESUME, bad))


@pytest.mark.parametrize("mode", PermissionMode)
def test_claude_code_always_runs_in_a_mode_in_which_it_asks(mode: PermissionMode) -> None:
    found = options(plan(permission_mode=mode))
    assert found["--permission-mode"] in ("default", "acceptEdits", "plan")
    assert found["--permission-prompt-tool"] == "stdio"
    assert not any("dangerously" in name for name in found)


def test_the_choices_of_the_session_are_arguments() -> None:
    given = plan(
        model="opus", effort=ReasoningEffort.HIGH, additional_directories=("/one", "/two"),
        options={"claudeAgent": "reviewer", "other": "ignored"},
    )  # fmt: skip
    found, argv = options(given), arguments(given)
    assert (found["--model"], found["--effort"], found["--agent"]) == ("opus", "high", "reviewer")
    assert [argv[index + 1] for index, name in enumerate(argv) if name == "--add-dir"] == ["/one", "/two"]


@pytest.mark.parametrize("given", [{"model": "--agent"}, {"options": {"claudeAgent": "-p"}}])
def test_a_choice_cannot_become_an_option(given: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        arguments(plan(**given))


def test_the_source_is_told_to_hooks_and_not_to_the_model() -> None:
    given = plan(source="external-api", environment={"PATH": "/bin"})
    settings = json.loads(options(given)["--settings"])
    assert [*settings] == ["hooks"], "nothing else of the owner's settings is touched"
    assert [*settings["hooks"]] == ["SessionStart"]
    assert "external-api" not in json.dumps(settings)
    assert environment(given)["HAPI_SESSION_SOURCE"] == "external-api"
    assert "HAPI_SESSION_SOURCE" not in environment(plan())


def test_the_environment_is_that_of_the_plan_with_copies_of_files_on() -> None:
    found = environment(plan(environment={"PATH": "/bin"}))
    assert found == {"PATH": "/bin", "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true"}


def test_secrets_of_mcp_servers_are_not_arguments() -> None:
    local = McpServer(name="local", command="/bin/server", args=("-v",), env={"TOKEN": "secret"})
    remote = McpServer(
        name="remote", type=McpTransport.HTTP, url="https://host/mcp", headers={"Authorization": "secret"}
    )
    assert "secret" not in json.dumps(arguments(plan(mcp_servers=(local, remote))))
    assert mcp_servers((local, remote)) == {
        "local": {"type": "stdio", "command": "/bin/server", "args": ["-v"], "env": {"TOKEN": "secret"}},
        "remote": {"type": "http", "url": "https://host/mcp", "headers": {"Authorization": "secret"}},
    }
