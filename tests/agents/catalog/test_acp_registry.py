from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farsteer.agents.catalog.acp_registry import find_agent, to_toml
from farsteer.agents.catalog.definition import AgentDefinition
from farsteer.cli.main import main
from farsteer.core.errors import BadRequest, NotFound

NPX = {"npx": {"package": "@x/agent@1.2.3", "args": ["--acp"], "env": {"A": 'quoted "b"'}}}
UVX = {"uvx": {"package": "agent==1.0", "cmd": "agent-cli", "args": ["acp"]}}
BINARY = {
    "binary": {
        "linux-x86_64": {"archive": "https://example.org/a.zip", "cmd": "./dist/agent", "args": ["acp"]}
    }
}


def registry(*entries: Any) -> bytes:
    return json.dumps({"version": "1.0.0", "agents": entries, "extensions": []}).encode()


def entry(id: str, distribution: Any, **fields: Any) -> dict[str, Any]:
    return {"id": id, "name": f"Agent {id}", "version": "1.2.3", "distribution": distribution, **fields}


@pytest.mark.parametrize(
    ("distribution", "command"),
    [
        (NPX, ("npx", "--yes", "@x/agent@1.2.3", "--acp")),
        (UVX, ("uvx", "--from", "agent==1.0", "agent-cli", "acp")),
        (BINARY, ("agent", "acp")),
    ],
)
def test_an_entry_becomes_a_definition_that_can_be_written_and_read(
    distribution: Any, command: tuple[str, ...]
) -> None:
    found = find_agent(registry(entry("a", distribution, website="https://example.org")), "a")
    assert found.command == command
    assert found.does_unasked
    assert msgspec.toml.decode(to_toml(found), type=AgentDefinition) == found


def test_an_entry_of_an_unknown_form_does_not_spoil_the_others() -> None:
    content = registry({"id": 5}, "text", entry("a", NPX))
    assert find_agent(content, "a").title == "Agent a"
    with pytest.raises(NotFound) as caught:
        find_agent(content, "b")
    assert caught.value.details["agents"] == ["a"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b"\xff",
        registry(entry("a", {})),
        registry(entry("a", {"npx": {"package": "p", "env": {"FARSTEER_X": "1"}}})),
    ],
)
def test_what_cannot_be_used_is_refused(content: bytes) -> None:
    with pytest.raises(BadRequest):
        find_agent(content, "a")


def test_an_agent_is_added_listed_and_removed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "registry.json"
    file.write_bytes(registry(entry("wonder", NPX)))
    at = ["--home", str(home / "farsteer")]
    assert main(["agents", "add", "wonder", "--registry", str(file), *at]) == 0
    assert "npx --yes @x/agent@1.2.3 --acp" in capsys.readouterr().out
    assert (home / "farsteer" / "agents" / "wonder.toml").stat().st_mode & 0o777 == 0o600
    assert main(["agents", "wonder", *at]) == 0
    assert "Agent wonder" in capsys.readouterr().out
    assert main(["agents", "add", "wonder", "--registry", str(file), *at]) != 0
    assert main(["agents", "remove", "wonder", *at]) == 0
    assert main(["agents", "remove", "wonder", *at]) != 0
    for name in ("../x", "claude", "gemini"):
        assert main(["agents", "add", name, "--registry", str(file), *at]) != 0
