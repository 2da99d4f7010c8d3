"""acpx, an independent ACP client, with `farsteer acp`: single prompts, sessions, permissions."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.support.acp_schema import check
from tests.support.node import NODE
from tests.support.stack import announce, farsteer
from tests.vendor.conftest import required
from tests.vendor.droid.conftest import only_new
from tests.vendor.pins import ACPX, Pin

DENIED = 5
"""The exit code of acpx when a permission was denied."""
pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]


async def acpx(project: Path, *words: str, agent: str = "demo", code: int = 0) -> str:
    """Run acpx and return its stdout."""
    command = shlex.join([sys.executable, "-m", "farsteer", "acp", "--agent", agent])
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(required(ACPX)), "--agent", command, *words, cwd=project, stdin=DEVNULL, stdout=PIPE,
        stderr=PIPE, env={**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}"}, start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(100):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == code, (out.decode(), err.decode())
    return out.decode()


async def test_a_single_prompt_prints_only_protocol_messages(home: Path, project: Path) -> None:
    out = await acpx(
        project,
        "--approve-all",
        "--format",
        "json",
        "--json-strict",
        "exec",
        "write a.txt x\nthink\nsay done",
    )
    assert (project / "a.txt").exists()
    messages: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    updates = [message["params"] for message in messages if message.get("method") == "session/update"]
    for update in updates:
        check("session/update", "Notification", update)
    texts = [
        one["update"]["content"]["text"]
        for one in updates
        if one["update"]["sessionUpdate"] == "agent_message_chunk"
    ]
    assert "".join(texts).endswith("done")
    assert messages[-1]["result"] == {"stopReason": "end_turn"}


async def test_a_denied_tool_does_not_run(home: Path, project: Path) -> None:
    out = await acpx(project, "--deny-all", "exec", "write a.txt x", code=DENIED)
    assert "a.txt is as it was." in out
    assert not (project / "a.txt").exists()


async def test_a_session_is_created_continued_configured_listed_and_closed(home: Path, project: Path) -> None:
    """acpx runs several agent processes at the same time, so they need a hub to share."""
    async with farsteer(home, seconds=200) as stack:
        announce(stack)
        session = (await acpx(project, "sessions", "new")).split()[0]
        try:
            assert "hello there" in await acpx(project, "--ttl", "5", "say hello there")
            await acpx(project, "set", "model", "demo-1-mini")
            assert "model demo-1-mini" in await acpx(project, "--ttl", "5", "prompt", "model")
            assert session in await acpx(project, "sessions", "list")
        finally:
            assert session in await acpx(project, "sessions", "close")


@only_new
async def test_the_real_droid_answers_acpx(droid: Pin, project: Path) -> None:
    out = await acpx(
        project,
        "--approve-all",
        "exec",
        "[[bash:touch made.txt]][[say:Hello from the model.]]",
        agent="droid",
    )
    assert (project / "made.txt").exists()
    assert "Hello from the model." in out
    assert "end_turn" in out
