"""The SDK goes back, branches off, adopts, counts and keeps: against a real hub with the demo agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer import AsyncClient, Client
from farsteer.core.errors import Conflict, NotFound
from farsteer.core.events import FileRestore, UserMessage
from farsteer.core.queue import Delivery, ItemState
from tests.support.eventually import eventually
from tests.support.stack import OWNER, Stack, farsteer


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        yield stack


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(stack.url, OWNER) as client:
        yield client


async def seq_of(client: AsyncClient, session_id: str, text: str) -> int:
    async for entry in client.messages(session_id):
        if isinstance(entry.content, UserMessage) and entry.content.text == text:
            return entry.seq
    raise AssertionError(f"nobody said {text!r}")


async def test_rewinding_takes_a_message_back_from_the_agent_and_from_the_disk(
    stack: Stack, client: AsyncClient
) -> None:
    directory = Path(stack.directory())
    session = await client.start(directory, agent="demo", yolo=True)
    await session.ask("remember the dolphin")
    await session.ask("write whales.txt hello")
    assert (directory / "whales.txt").read_text().strip() == "hello"
    done = await session.rewind(await seq_of(client, session.id, "write whales.txt hello"))
    assert (done.text, done.files.status) == ("write whales.txt hello", FileRestore.FULL)
    assert not (directory / "whales.txt").exists()
    remembered = str(await session.ask("history"))
    assert "dolphin" in remembered
    assert "whales.txt" not in remembered
    with pytest.raises(NotFound):
        await session.rewind(done.first_seq)


async def test_a_fork_knows_the_past_and_leaves_its_source_alone(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo", title="source")
    await session.ask("remember the dolphin")
    await session.ask("remember the whale")
    fork = await session.fork(seq=await seq_of(client, session.id, "remember the whale"), title="branch")
    remembered = str(await fork.ask("history"))
    assert "dolphin" in remembered
    assert "whale" not in remembered
    assert "whale" in str(await session.ask("history"))
    assert (await fork.view()).title == "branch"


async def test_an_export_can_be_kept_and_read(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    await session.ask("say something worth keeping")
    lines = b"".join([piece async for piece in session.export()]).splitlines()
    assert json.loads(lines[0])["session"]["id"] == session.id
    assert any("worth keeping" in json.dumps(json.loads(line)) for line in lines[1:])
    page = b"".join([piece async for piece in session.export(form="markdown")]).decode()
    assert "something worth keeping" in page


async def test_usage_is_counted_by_day_session_and_turn(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    for _ in range(2):
        await session.ask("hello")
    whole = await client.usage()
    assert len(whole.groups) == 1
    assert whole.total.turns == 2
    assert whole.total.input_tokens > 0
    (mine,) = (await client.usage(group_by="session")).groups
    assert (mine.key, mine.turns) == (session.id, 2)
    assert len((await client.usage(group_by="turn", session_id=session.id)).groups) == 2


async def test_a_stored_conversation_is_listed_and_belongs_to_its_session(
    stack: Stack, client: AsyncClient
) -> None:
    session = await client.start(stack.directory(), agent="demo")
    await session.ask("remember the dolphin")
    (machine,) = await client.machines()
    (stored,) = await client.conversations(machine.id, "demo")
    assert (stored.session_id, stored.directory) == (session.id, stack.directory())
    with pytest.raises(Conflict) as refused:
        await client.adopt(machine.id, "demo", stored.native_id)
    assert session.id in refused.value.message


async def test_a_message_can_overtake_the_queue_or_go_into_the_turn(
    stack: Stack, client: AsyncClient
) -> None:
    session = await client.start(stack.directory(), agent="demo")
    await session.send("slow 400")

    async def working() -> bool:
        return (await session.view()).turn_id is not None

    await eventually(working)
    steered = await session.send("say steered", delivery=Delivery.STEER)
    later = await session.send("say later")
    last = await session.send("say last")
    await session.send_now(last.id)

    async def done() -> bool:
        view = await session.view()
        return view.turn_id is None and not view.queue

    await eventually(done, 20)
    said = [e.content.item_id async for e in session.messages() if isinstance(e.content, UserMessage)]
    assert said[1:] == [steered.id, last.id, later.id]
    assert steered.state is ItemState.ACCEPTED


def test_the_same_without_an_event_loop(home: Path) -> None:
    async def serve(ready: asyncio.Event, over: asyncio.Event, urls: list[str]) -> None:
        async with farsteer(home) as stack:
            urls += [stack.url, stack.directory()]
            ready.set()
            await over.wait()

    async def main() -> None:
        ready, over, urls = asyncio.Event(), asyncio.Event(), list[str]()
        serving = asyncio.create_task(serve(ready, over, urls))
        await ready.wait()
        await asyncio.to_thread(talk, *urls)
        over.set()
        await serving

    def talk(url: str, directory: str) -> None:
        with Client(url, OWNER) as client:
            session = client.start(directory, agent="demo")
            session.ask("remember the dolphin")
            fork = session.fork()
            assert "dolphin" in str(fork.ask("history"))
            assert b"dolphin" in b"".join(session.export())
            assert client.usage(group_by="agent").total.turns == 2

    asyncio.run(main())
