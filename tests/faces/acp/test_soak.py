"""A thousand sessions opened and closed over one connection: no process, no task, no memory is left."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import psutil
import pytest

from farsteer.agents import registry
from tests.faces.acp.conftest import Editors
from tests.faces.acp.quick import QuickLaunch
from tests.support.acp_client import Editor
from tests.support.eventually import eventually
from tests.support.stack import Stack

SESSIONS = 1000
AT_ONCE = 20
MEGABYTES = 12


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry._BUILT_IN, "demo", "tests.faces.acp.quick:QuickAdapter")
    registry.adapter.cache_clear()
    yield
    registry.adapter.cache_clear()


async def live(editor: Editor, directory: str, numbers: range) -> None:
    """Sessions one after the other, each with a turn, loaded once more, closed and deleted."""
    for number in numbers:
        session = (await editor.new(directory))["sessionId"]
        assert await editor.prompt(session, f"number {number}") == "end_turn"
        await editor.load(session)
        await editor.call("session/close", sessionId=session)
        await editor.call("session/delete", sessionId=session)


async def crowd(editor: Editor, directory: str, count: int) -> None:
    share = count // AT_ONCE
    async with asyncio.TaskGroup() as group:
        for start in range(0, count, share):
            group.create_task(live(editor, directory, range(start, start + share)))


def resident() -> float:
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


@pytest.mark.faults
@pytest.mark.timeout(150)
async def test_a_thousand_sessions_leave_nothing(quick: None, editors: Editors, stack: Stack) -> None:
    directory = stack.directory()
    async with editors() as editor:
        await crowd(editor, directory, SESSIONS // 5)
        editor.forget()
        editor.wire.answered.clear()
        editor.wire._asked.clear()
        tasks, before = len(asyncio.all_tasks()), resident()
        await crowd(editor, directory, SESSIONS - SESSIONS // 5)
        assert editor.text().count("You said") == 2 * (SESSIONS - SESSIONS // 5)
        editor.forget()
        editor.wire.answered.clear()
        editor.wire._asked.clear()
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
        await eventually(lambda: QuickLaunch.living == 0)
        assert resident() - before < MEGABYTES
        assert (await editor.call("session/list"))["sessions"] == []
