"""202 means delivered: one store call of the hub fails, each in its turn, and every accepted message has an outcome."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from farsteer.core.api import SendMessage
from farsteer.core.errors import Unavailable
from farsteer.core.events import QueueUpdate, SessionStatus, decode_entry
from farsteer.core.queue import ItemState
from farsteer.hub import tasks
from farsteer.runner import link_client
from tests.hub.scripted import caller
from tests.support.eventually import eventually
from tests.support.failing_store import FailingCalls
from tests.support.stack import Stack, farsteer

ME = caller()
MESSAGES = 3
ERRORS: dict[str, Callable[[], BaseException]] = {
    "full disk": lambda: Unavailable("the disk is full"),
    "locked database": lambda: sqlite3.OperationalError("database is locked"),
    "no memory": MemoryError,
    "unforeseen": lambda: RuntimeError("nobody thought of this"),
}


async def send(stack: Stack, session_id: str, text: str) -> str:
    """Send as a client does that repeats its request until it gets a 202."""
    while True:
        try:
            request = SendMessage(text=text, local_id=text)
            return (await stack.hub.messages.send(ME, session_id, request)).id
        except Exception:
            await asyncio.sleep(0.002)


@pytest.mark.faults
@pytest.mark.parametrize("committed", [False, True], ids=["undone", "committed"])
@pytest.mark.parametrize("fault", ERRORS)
async def test_every_202_has_an_outcome_whichever_store_call_fails(
    home: Path, monkeypatch: pytest.MonkeyPatch, fault: str, committed: bool
) -> None:
    for module in (tasks, link_client):
        monkeypatch.setattr(module, "_FIRST_DELAY", 0.01)
    async with farsteer(home, seconds=300) as stack:
        owner = await stack.sign_in()
        session_id = await stack.create(owner)
        read_page, get_session = stack.hub.store.read_page, stack.hub.store.get_session
        calls = FailingCalls(stack.hub.store)
        failing = 0
        while True:
            failing += 1
            first = len(calls.names)

            def decide(_: str, number: int, failed: int = first + failing) -> BaseException | None:
                return ERRORS[fault]() if number == failed else None

            if committed:
                calls.after = decide
            else:
                calls.before = decide
            texts = [f"say {failing}.{n}" for n in range(MESSAGES)]
            items = [await send(stack, session_id, text) for text in texts]

            async def ended(items: list[str] = items) -> bool:
                page = await read_page(ME.namespace, session_id, limit=100, before=None, after=None)
                contents = [decode_entry(body).content for body in page.bodies]
                delivered = [
                    event.item_id
                    for event in contents
                    if isinstance(event, QueueUpdate) and event.state is ItemState.DELIVERED
                ]
                assert len(delivered) == len(set(delivered)), "nothing twice"
                idle = (await get_session(ME.namespace, session_id)).state.status is SessionStatus.IDLE
                return idle and [id for id in delivered if id in items] == items

            await eventually(ended, 20)
            if len(calls.names) < first + failing:
                break
        assert failing > 2 * MESSAGES, "each message needs more calls than that"
