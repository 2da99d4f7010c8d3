"""The official TypeScript SDK as a client, over stdio and over the hub's websocket."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.support.acp_client import FARSTEER_ACP
from tests.support.droid_simulator import install
from tests.support.node import JS, NODE
from tests.support.stack import OWNER, Stack, farsteer

pytestmark = pytest.mark.slow


class Report(list[tuple[str, Any]]):
    """What the SDK reported, in order: a kind and its value."""

    def values(self, kind: str) -> list[Any]:
        return [value for reported, value in self if reported == kind]

    def text(self) -> str:
        return "".join(
            update["content"]["text"]
            for update in self.values("update")
            if update["sessionUpdate"] == "agent_message_chunk"
        )


async def run_sdk(where: dict[str, Any], *steps: Any) -> Report:
    """Run the steps and return what the SDK reported."""
    process = await asyncio.create_subprocess_exec(
        str(NODE), "acp.mjs", json.dumps(where), json.dumps(steps), cwd=JS, stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(50):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    report = Report((kind, value) for kind, value in map(json.loads, out.splitlines()))
    assert report.values("error") == []
    return report


def prompt(text: str, until: str | None = None) -> list[Any]:
    params = {"sessionId": "$id", "prompt": [{"type": "text", "text": text}]}
    return ["session/prompt", params, *([until] if until else [])]


def session_params(folder: Path | str) -> dict[str, Any]:
    return {"cwd": str(folder), "mcpServers": []}


ALL = [
    prompt("write a.txt x\nthink\ntodo\nask\nsay done"),
    ["session/set_mode", {"sessionId": "$id", "modeId": "plan"}],
    ["session/set_config_option", {"sessionId": "$id", "configId": "model", "value": "demo-1-mini"}],
    prompt("slow 500", until="word2"),
    ["session/cancel", {"sessionId": "$id"}],
    prompt("say after"),
    ["session/list", {}],
    ["session/load", {"sessionId": "$id", "cwd": "/", "mcpServers": []}],
    ["session/resume", {"sessionId": "$id", "cwd": "/", "mcpServers": []}],
    ["session/fork", {"sessionId": "$id", "cwd": "/", "mcpServers": []}],
    ["session/close", {"sessionId": "$id"}],
    ["session/delete", {"sessionId": "$id"}],
]
FORMS = {
    "capabilities": {"elicitation": {"form": {}}, "auth": {"terminal": True}},
    "form": {"colour": "blue"},
}


def check(report: Report, folder: Path) -> None:
    assert (folder / "a.txt").exists()
    (initialized,) = report.values("initialize")
    assert initialized["agentInfo"]["name"] == "farsteer"
    assert [one["stopReason"] for one in report.values("session/prompt")] == ["end_turn", "end_turn"]
    assert report.values("session/prompt (later)") == [{"stopReason": "cancelled"}]
    assert len(report.values("permission")) == 1
    assert len(report.values("elicitation")) == 1
    assert "You chose colour: blue." in report.text()
    kinds = {update["sessionUpdate"] for update in report.values("update")}
    assert kinds >= {
        "agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update", "plan",
        "available_commands_update", "current_mode_update", "config_option_update", "session_info_update",
        "usage_update",
    }  # fmt: skip
    for method in ("session/list", "session/load", "session/resume", "session/fork", "session/close"):
        assert len(report.values(method)) == 1, method


async def test_the_sdk_over_stdio(home: Path, project: Path) -> None:
    where = {"command": [*FARSTEER_ACP, "--agent", "demo"], **FORMS}
    check(await run_sdk(where, ["session/new", session_params(project)], *ALL), project)


async def test_the_sdk_over_the_hubs_websocket(stack: Stack) -> None:
    url = stack.url.replace("http", "ws", 1) + "/acp"
    folder = Path(stack.directory())
    report = await run_sdk(
        {"url": url, "token": OWNER, **FORMS}, ["session/new", session_params(folder)], *ALL
    )
    check(report, folder)


async def test_the_sdk_with_a_simulated_droid(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    habit = ("--misbehave", "premature-idle")
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215", *habit))
    async with farsteer(home) as stack:
        url = stack.url.replace("http", "ws", 1) + "/acp"
        steps = [
            ["session/new", session_params(stack.directory())],
            ["session/set_config_option", {"sessionId": "$id", "configId": "agent", "value": "droid"}],
            prompt("run touch made.txt"),
            prompt("say the last word"),
        ]
        report = await run_sdk({"url": url, "token": OWNER}, *steps)
    assert (Path(stack.directory()) / "made.txt").exists()
    assert report.text().endswith("the last word")
    assert [kind for kind, _ in report][-1] == "session/prompt"
