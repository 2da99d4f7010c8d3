"""The real Droid behind `farsteer acp`: every line held to the schema, and the official SDK in front of it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.acp.test_typescript_sdk import client, here, prompt
from tests.support.acp_client import FARSTEER_ACP, FORMS, choosing, editor
from tests.vendor.droid.conftest import only_new
from tests.vendor.pins import Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]

ECHO = {
    "name": "echo",
    "command": sys.executable,
    "args": [str(Path(__file__).parents[1] / "droid" / "echo_server.py")],
    "env": [],
}


async def test_turns_permissions_cancel_and_a_second_life(droid: Pin, desk: Path) -> None:
    async with editor("--agent", "droid", answer=choosing("allow_once"), cwd=desk) as zed:
        await zed.initialize()
        session = (await zed.new(str(desk)))["sessionId"]
        assert await zed.prompt(session, "[[think:hm]][[bash:touch made.txt]][[say:made it]]") == "end_turn"
        assert (desk / "made.txt").exists()
        assert zed.text().endswith("made it")
        assert zed.log[-1].startswith("answer")
        assert len(zed.asked) == 1
        (run,) = [call for call in zed.told("tool_call") if call["kind"] == "execute"]
        assert zed.told("tool_call_update", toolCallId=run["toolCallId"], status="completed")
        running = zed.start(session, "[[slow:200:0.1]]")
        await zed.until(lambda: zed.text().count(" ") > 6)
        zed.cancel(session)
        assert await running == "cancelled"
    async with editor("--agent", "droid", cwd=desk) as again:
        await again.initialize()
        await again.load(session)
        assert "made it" in again.text()
        again.forget()
        assert await again.prompt(session, "[[history]]") == "end_turn"
        assert "made it" in again.text()


@only_new
async def test_a_server_of_tools_that_the_editor_brings_along_is_used(droid: Pin, desk: Path) -> None:
    async with editor("--agent", "droid", answer=choosing("allow_once"), cwd=desk) as zed:
        await zed.initialize()
        session = (await zed.new(str(desk), mcpServers=[ECHO]))["sessionId"]
        await zed.prompt(session, '[[tool:echo___shout:{"text":"hooray"}]]')
        assert "HOORAY" in zed.text()


@only_new
async def test_questions_and_plans_are_forms(droid: Pin, desk: Path) -> None:
    async def answer(method: str, params: dict[str, Any]) -> Any:
        assert method == "elicitation/create"
        fields = params["requestedSchema"]["properties"]
        content: dict[str, Any] = {}
        for name, field in fields.items():
            if "oneOf" in field:
                content[name] = field["oneOf"][0]["const"]
            elif "Color" in field["title"] or "color" in field["title"]:
                content[name] = "Blue"
        return {"action": "accept", "content": content}

    async with editor("--agent", "droid", answer=answer, cwd=desk) as zed:
        await zed.initialize(**FORMS)
        session = (await zed.new(str(desk)))["sessionId"]
        await zed.prompt(session, "[[ask:Which color?:Red|Blue]]")
        assert "Blue" in zed.text()
        await zed.call("session/set_mode", sessionId=session, modeId="plan")
        await zed.prompt(session, "[[plan:First this, then that.]][[say:carried out]]")
        assert zed.text().endswith("carried out")
        assert len(zed.asked) == 2


@only_new
async def test_the_official_sdk_with_the_real_droid(droid: Pin, desk: Path) -> None:
    where = {"command": [*FARSTEER_ACP, "--agent", "droid"]}
    steps = [
        ["session/new", here(desk)],
        prompt("[[bash:touch made.txt]][[say:made it]]"),
        prompt("[[slow:200:0.1]]", until=" "),
        ["session/cancel", {"sessionId": "$id"}],
        prompt("[[say:the end]]"),
        ["session/fork", {"sessionId": "$id", "cwd": str(desk), "mcpServers": []}],
        ["session/close", {"sessionId": "$id"}],
    ]
    async with asyncio.timeout(120):
        told = await client(where, *steps)
    assert (desk / "made.txt").exists()
    assert told.text().endswith("the end")
    assert told.of("session/prompt (later)") == [{"stopReason": "cancelled"}]
