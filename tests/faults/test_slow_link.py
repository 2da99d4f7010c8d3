"""A slow link makes progress: large messages share it, go on where they stopped, and fail alone."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from farsteer.core.events import AgentMessage, SessionEvent
from farsteer.link import channel
from farsteer.link.websocket import connect
from farsteer.runner.runner import Runner
from farsteer.runner.session.log import SessionLog
from tests.support.eventually import eventually
from tests.support.slow_proxy import SlowProxy, slow_proxy
from tests.support.stack import OWNER, Account, Stack, farsteer

MEGABYTE = 1_000_000


@dataclass(slots=True)
class Site:
    """A hub, and a runner that reaches it through a proxy."""

    stack: Stack
    owner: Account
    proxy: SlowProxy

    async def short_turn(self, session_id: str, text: str) -> float:
        """Send a short message and return the seconds until its answer can be read."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await self.owner.say(session_id, f"say {text}")

        async def answered() -> bool:
            await asyncio.sleep(0.05)
            log = await self.owner.messages(session_id, limit=10)
            return any(one["content"].get("text") == text and one["role"] == "agent" for one in log)

        await eventually(answered, 60)
        return loop.time() - begun

    async def outcome(self, session_id: str, item_id: str) -> str | None:
        """Return the last state of a message in the log."""
        log = await self.owner.messages(session_id, limit=200)
        contents = [entry["content"] for entry in log]
        states = [one["state"] for one in contents if one.get("itemId") == item_id and "state" in one]
        return states[-1] if states else None


@asynccontextmanager
async def site(home: Path, elsewhere: Path, seconds: float) -> AsyncIterator[Site]:
    async with (
        farsteer(home, with_runner=False, seconds=seconds) as stack,
        slow_proxy(int(stack.url.rsplit(":", 1)[1])) as proxy,
    ):
        runner = await Runner.open(elsewhere)
        life = asyncio.create_task(runner.run(lambda: connect(proxy.url, OWNER)))
        try:
            async with asyncio.timeout(20):
                await runner.connected.wait()
            yield Site(stack, await stack.sign_in(), proxy)
        finally:
            proxy.limit(None)
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
            await runner.close()


def attachment(size: int) -> dict[str, Any]:
    """Return an attachment that has so many characters on the link."""
    return {"name": "large", "data": b64encode(Random(1).randbytes(size * 3 // 4)).decode()}


@pytest.fixture
def large_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an agent that is told to `say N bytes` do so."""
    add = SessionLog.add

    def add_large(self: SessionLog, event: SessionEvent, **named: Any) -> None:
        if isinstance(event, AgentMessage) and event.text.endswith(" bytes"):
            event = replace(event, text=Random(2).randbytes(int(event.text.split()[0]) // 2).hex())
        add(self, event, **named)

    monkeypatch.setattr(SessionLog, "add", add_large)


@pytest.mark.faults
@pytest.mark.timeout(620)
@pytest.mark.usefixtures("large_answers")
async def test_ten_megabytes_each_way_over_50_kilobytes_per_second(home: Path, tmp_path: Path) -> None:
    size = 10 * MEGABYTE
    async with site(home, tmp_path / "elsewhere", 580) as here:
        up, down, short = [await here.stack.create(here.owner) for _ in range(3)]
        await here.short_turn(short, "warm")
        here.proxy.limit(50_000)
        await here.owner.say(up, f"say {size} bytes")
        item = await here.owner.say(down, "say got it", attachments=[attachment(size)])
        times: list[float] = []

        async def done() -> bool:
            await asyncio.sleep(2.0)
            times.append(await here.short_turn(short, f"turn {len(times)}"))
            print(f"{times[-1]:.2f} s; up {here.proxy.up.passed}, down {here.proxy.down.passed} bytes")
            if await here.outcome(down, item) != "delivered":
                return False
            return (await here.owner.session(up))["status"] == "idle"

        await eventually(done, 500)
        # The median, because the machine that runs all this may be busy with other tests at times.
        assert sorted(times)[len(times) // 2] < 2.0, sorted(times)
        assert here.proxy.connections == 1
        assert max(len(one["content"].get("text", "")) for one in await here.owner.messages(up)) == size


@pytest.mark.faults
@pytest.mark.usefixtures("large_answers")
@pytest.mark.parametrize("direction", ["up", "down"])
async def test_an_interrupted_transfer_goes_on_where_it_stopped(
    home: Path, tmp_path: Path, direction: str
) -> None:
    size = 3 * MEGABYTE
    async with site(home, tmp_path / "elsewhere", 120) as here:
        session = await here.stack.create(here.owner)
        way = here.proxy.down if direction == "down" else here.proxy.up
        way.rate, way.passed = 300_000, 0
        if direction == "down":
            await here.owner.say(session, "say got it", attachments=[attachment(size)])
        else:
            await here.owner.say(session, f"say {size} bytes")
        for part in (1, 2, 3):
            await eventually(lambda part=part: way.passed > part * size / 4, 60)
            await here.proxy.cut()

        async def answered() -> bool:
            log = await here.owner.messages(session, limit=10)
            return any(one["content"]["kind"] == "turn_end" for one in log)

        await eventually(answered, 60)
        assert here.proxy.connections == 4
        assert size < way.passed < 1.25 * size


@pytest.mark.faults
@pytest.mark.usefixtures("large_answers")
async def test_a_message_that_a_link_cannot_carry_fails_alone(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MAX_FRAME", MEGABYTE)
    async with site(home, tmp_path / "elsewhere", 60) as here:
        session, other = [await here.stack.create(here.owner) for _ in range(2)]
        await here.owner.say(session, "say too long", attachments=[attachment(2 * MEGABYTE)])
        item = await here.owner.say(session, f"say {2 * MEGABYTE} bytes")

        async def ended() -> bool:
            return any(one["content"]["kind"] == "turn_end" for one in await here.owner.messages(session))

        await eventually(ended, 20)
        log = [one["content"] for one in await here.owner.messages(session)]
        assert [one["code"] for one in log if one["kind"] == "notice"] == ["entry_too_large"]
        assert [one["itemId"] for one in log if one["kind"] == "user_message"] == [item]
        assert (await here.owner.session(session))["queue"] == []
        await here.short_turn(other, "and the link goes on")
        assert here.proxy.connections == 1
