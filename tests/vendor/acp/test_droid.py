"""The real Droid behind `farsteer acp`, with schema checks and with the official SDK."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.acp.test_typescript_sdk import prompt, run_sdk, session_params
from tests.support.acp_client import FARSTEER_ACP, FORMS, choose_option, editor_process
from tests.vendor.droid.conftest import only_new
from tests.vendor.pins import Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]

ECHO = {
    "name": "echo",
    "command": sys.executable,
    "args": [str(Path(__file__).parents[1] / "droid" / "echo_server.py")],
    "env": [],
}


async def test_turns_permissions_cancel_and_a_second_process(droid: Pin, project: Path) -> None:
    async with editor_process("--agent", "droid", answer=choose_option("allow_once"), cwd=project) as editor:
        await editor.initialize()
        session = (await editor.new(str(project)))["sessionId"]
        assert (
            await editor.prompt(session, "[[think:hm]][[bash:touch made.txt]][[say:made it]]") == "end_turn"
        )
        assert (project / "made.txt").exists()
        assert editor.text().endswith("made it")
        # Droid reports a title in its own time, also after the end of the turn.
        assert [kind for kind in editor.log if kind != "session_info_update"][-1].startswith("answer")
        assert len(editor.requests) == 1
        (run,) = [call for call in editor.updates_of("tool_call") if call["kind"] == "execute"]
        assert editor.updates_of("tool_call_update", toolCallId=run["toolCallId"], status="completed")
        running = editor.start_prompt(session, "[[slow:200:0.1]]")
        await editor.wait_until(lambda: editor.text().count(" ") > 6)
        editor.cancel(session)
        assert await running == "cancelled"
    async with editor_process("--agent", "droid", cwd=project) as again:
        await again.initialize()
        await again.load(session)
        assert "made it" in again.text()
        again.clear()
        assert await again.prompt(session, "[[history]]") == "end_turn"
        assert "made it" in again.text()


@only_new
async def test_an_mcp_server_of_the_editor_is_used(droid: Pin, project: Path) -> None:
    async with editor_process("--agent", "droid", answer=choose_option("allow_once"), cwd=project) as editor:
        await editor.initialize()
        session = (await editor.new(str(project), mcpServers=[ECHO]))["sessionId"]
        await editor.prompt(session, '[[tool:echo___shout:{"text":"hooray"}]]')
        assert "HOORAY" in editor.text()


@only_new
async def test_questions_and_plans_are_forms(droid: Pin, project: Path) -> None:
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

    async with editor_process("--agent", "droid", answer=answer, cwd=project) as editor:
        await editor.initialize(**FORMS)
        session = (await editor.new(str(project)))["sessionId"]
        await editor.prompt(session, "[[ask:Which color?:Red|Blue]]")
        assert "Blue" in editor.text()
        await editor.call("session/set_mode", sessionId=session, modeId="plan")
        await editor.prompt(session, "[[plan:First this, then that.]][[say:carried out]]")
        assert editor.text().endswith("carried out")
        assert len(editor.requests) == 2


@only_new
async def test_the_official_sdk_with_the_real_droid(droid: Pin, project: Path) -> None:
    where = {"command": [*FARSTEER_ACP, "--agent", "droid"]}
    steps = [
        ["session/new", session_params(project)],
        prompt("[[bash:touch made.txt]][[say:made it]]"),
        prompt("[[slow:200:0.1]]", until=" "),
        ["session/cancel", {"sessionId": "$id"}],
        prompt("[[say:the end]]"),
        ["session/fork", {"sessionId": "$id", "cwd": str(project), "mcpServers": []}],
        ["session/close", {"sessionId": "$id"}],
    ]
    async with asyncio.timeout(120):
        report = await run_sdk(where, *steps)
    assert (project / "made.txt").exists()
    assert report.text().endswith("the end")
    assert report.values("session/prompt (later)") == [{"stopReason": "cancelled"}]
