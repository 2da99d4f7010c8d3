"""A thousand sessions over one connection leave no process, no task and no memory behind."""

from __future__ import annotations

import asyncio
import gc

import psutil
import pytest

from farsteer.agents import registry
from tests.faces.acp import instant_agent
from tests.faces.acp.conftest import Editors
from tests.support.acp_client import Editor
from tests.support.eventually import eventually
from tests.support.stack import Stack

SESSIONS = 1000
CONCURRENT = 20
MAX_GROWTH_MB = 12


@pytest.fixture
def instant_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._BUILT_IN, "demo", "tests.faces.acp.instant_agent:InstantAdapter")


async def use_sessions(editor: Editor, directory: str, numbers: range) -> None:
    """Use sessions one after the other: create, prompt, load again, close, delete."""
    for number in numbers:
        session = (await editor.new(directory))["sessionId"]
        assert await editor.prompt(session, f"number {number}") == "end_turn"
        await editor.load(session)
        await editor.call("session/close", sessionId=session)
        await editor.call("session/delete", sessionId=session)


async def use_sessions_concurrently(editor: Editor, directory: str, count: int) -> None:
    share = count // CONCURRENT
    async with asyncio.TaskGroup() as group:
        for start in range(0, count, share):
            group.create_task(use_sessions(editor, directory, range(start, start + share)))


def resident_mb() -> float:
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


@pytest.mark.faults
@pytest.mark.timeout(150)
async def test_a_thousand_sessions_leave_nothing_behind(
    instant_demo: None, editors: Editors, stack: Stack
) -> None:
    directory = stack.directory()
    async with editors() as editor:
        await use_sessions_concurrently(editor, directory, SESSIONS // 5)
        editor.clear()
        editor.wire.answered.clear()
        editor.wire._methods.clear()
        tasks, before = len(asyncio.all_tasks()), resident_mb()
        await use_sessions_concurrently(editor, directory, SESSIONS - SESSIONS // 5)
        assert editor.text().count("You said") == 2 * (SESSIONS - SESSIONS // 5)
        editor.clear()
        editor.wire.answered.clear()
        editor.wire._methods.clear()
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
        await eventually(lambda: not instant_agent.running)
        assert resident_mb() - before < MAX_GROWTH_MB
        assert (await editor.call("session/list"))["sessions"] == []
