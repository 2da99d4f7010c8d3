"""kill -9 in the middle of a storm of writes: everything that was acknowledged is there, in order, once."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from farsteer.core.ids import new_id
from farsteer.hub import Hub
from tests.hub.conftest import OWNER_TOKEN
from tests.hub.scripted import caller

pytestmark = pytest.mark.slow

STORM = """
import asyncio, sys
from pathlib import Path
from farsteer.core.api import SendMessage
from farsteer.core.capabilities import MachineInfo
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec
from farsteer.core.events import AgentMessage, TurnStart
from farsteer.hub import Hub
from farsteer.hub.store.conformance.harness import LogBuilder
from tests.hub.scripted import machine
from tests.support.handshake import key_of

home, token, machine_id, session_id = Path(sys.argv[1]), *sys.argv[2:]

async def main():
    hub = await Hub.open(home, token)
    store = hub.store
    await store.enrol_machine("default", machine(machine_id), key_of(machine_id).public)
    await store.connect_machine("default", machine(machine_id), {}, link_id=1)
    await store.begin_session("default", SessionSpec(id=session_id, machine_id=machine_id, directory="/w"))
    log = LogBuilder(session_id)
    await store.finish_session(session_id, log.state)

    async def events():
        waiting = []
        while True:
            items = [log.add(AgentMessage(message_id="m", text="x" * 300)) for _ in range(7)]
            items.append(log.add(TurnStart(turn_id=str(log.state.seq))))
            waiting.append(await store.append_entries("default", machine_id, session_id, items, log.state, link_id=1))
            if len(waiting) > 8:
                print("ack", (await waiting.pop(0)).last_seq, flush=True)

    async def messages():
        for number in range(90):
            item = QueueItem(id=f"item-{number}", text="x", created_at=1, local_id=str(number))
            await store.accept_item("default", session_id, item)
            print("item", number, flush=True)
            await asyncio.sleep(0.001)

    await asyncio.gather(events(), messages())

asyncio.run(main())
"""


async def test_everything_acknowledged_survives_kill_9(home: Path) -> None:
    machine_id, session_id = new_id(), new_id()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STORM, str(home), OWNER_TOKEN, machine_id, session_id,
        stdout=asyncio.subprocess.PIPE, env=environment, cwd=home,
    )  # fmt: skip
    assert process.stdout is not None
    said = {b"ack": 0, b"item": 0}
    async with asyncio.timeout(30):
        while said[b"ack"] < 2000 or said[b"item"] < 20:
            kind, number = (await process.stdout.readline()).split()
            said[kind] = int(number)
        process.send_signal(signal.SIGKILL)
        # what it said before it died counts too
        while (line := await process.stdout.readline()).endswith(b"\n"):
            kind, number = line.split()
            said[kind] = int(number)
        await process.wait()

    hub = await Hub.open(home, OWNER_TOKEN)
    me = caller()
    view = await hub.sessions.get(me, session_id)
    assert view.seq >= said[b"ack"]
    assert view.turn_id == str(view.seq - 1), "the state is the one after the last event"
    seqs: list[int] = []
    while True:
        page = json.loads(
            await hub.messages.list(me, session_id, limit=200, after_seq=seqs[-1] if seqs else 0)
        )
        seqs += [message["seq"] for message in page["messages"]]
        if not page["page"]["hasMore"]:
            break
    assert seqs == list(range(1, view.seq + 1))
    assert len(view.queue) > said[b"item"]
    assert [item.local_id for item in view.queue] == [str(number) for number in range(len(view.queue))]
    told = await hub.store.read_feed("default", 0, types=["message-received"], limit=100_000)
    assert len(told.events) == view.seq
    await hub.close()
