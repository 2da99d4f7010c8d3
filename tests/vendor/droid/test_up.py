"""The real Droid behind `farsteer up`, used over REST, with restarts of the agent and of Farsteer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stack import OWNER, Account
from tests.vendor.droid.conftest import FAKE, STEP_TIMEOUT, only_new
from tests.vendor.pins import Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]


class Up:
    """`farsteer up` as a process that is stopped or killed and started again on the same home."""

    def __init__(self, desk: Path, log: Path) -> None:
        self.desk = desk
        self.log = log
        self.port = free_port()
        self.process: subprocess.Popen[str] | None = None

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Account]:
        """Run it and yield a signed-in client; at the end it is terminated."""
        self.process = self._spawn()
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(30):
                line = await asyncio.to_thread(self.process.stdout.readline)
            assert "ready" in line, self.log.read_text()
            async with Account(base_url=f"http://127.0.0.1:{self.port}", timeout=STEP_TIMEOUT) as account:
                answer = await account.post_json("/api/auth", {"accessToken": OWNER})
                account.headers["authorization"] = f"Bearer {answer['token']}"
                yield account
        finally:
            await self.end(signal.SIGTERM)

    async def end(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        await asyncio.to_thread(self.process.communicate, None, 30)

    def _spawn(self) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "farsteer", "up", "--port", str(self.port)],
                env={**os.environ, "CLI_API_TOKEN": OWNER}, cwd=self.desk, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip

    def agents(self) -> list[psutil.Process]:
        """Return the running Droid processes."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter(["name", "cwd"]):
            if process.info["name"] == "droid" and process.info["cwd"] == str(self.desk):
                found.append(process)
        return found


@pytest.fixture
def up(droid: Pin, tmp_path: Path) -> Up:
    desk = tmp_path / "desk"
    desk.mkdir()
    return Up(desk.resolve(), tmp_path / "up.log")


async def until(account: Account, session: str, reached: Callable[[Any], bool]) -> Any:
    """Wait until `reached` holds for the session, and return it."""
    found: dict[str, Any] = {}

    async def look() -> bool:
        found.update(await account.session(session))
        return reached(found)

    await eventually(look, STEP_TIMEOUT)
    return found


async def idle(account: Account, session: str) -> Any:
    return await until(account, session, lambda found: found["status"] == "idle" and not found["queue"])


async def approval(account: Account, session: str) -> Any:
    return (await until(account, session, lambda found: bool(found["approvals"])))["approvals"][0]


async def texts(account: Account, session: str) -> list[str]:
    log = await account.messages(session, limit=200)
    return [entry["content"]["text"] for entry in log if entry["content"]["kind"] == "agent_message"]


async def create(account: Account, up: Up) -> str:
    (machine,) = (await account.get_json("/api/machines"))["machines"]
    (droid,) = [agent for agent in machine["agents"] if agent["name"] == "droid"]
    assert droid["available"], droid
    body = {"machineId": machine["id"], "directory": str(up.desk), "agent": "droid", "model": FAKE}
    return (await account.post_json("/api/sessions", body))["sessionId"]


async def test_a_conversation_with_approvals_survives_a_restart_of_agent_and_hub(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)

        await account.say(session, "[[bash:touch made.txt]][[say:made it]]")
        asked = await approval(account, session)
        assert asked["kind"] == "permission"
        assert not (up.desk / "made.txt").exists()
        await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve")
        await idle(account, session)
        assert (up.desk / "made.txt").exists()

        await account.say(session, "[[ask:Which color?:Red|Blue]]")
        asked = await approval(account, session)
        answers = {asked["questions"][0]["id"]: ["Blue"]}
        await account.post_json(
            f"/api/sessions/{session}/permissions/{asked['id']}/approve", {"answers": answers}
        )
        await idle(account, session)
        said = await texts(account, session)
        assert said[0] == "made it"
        assert "Blue" in said[1]

        native_id = (await account.session(session))["nativeId"]
        assert len(up.agents()) == 1
        await account.post_json(f"/api/sessions/{session}/stop")
        await until(account, session, lambda found: found["status"] == "stopped")
        assert up.agents() == []

    async with up.started() as account:
        await account.post_json(f"/api/sessions/{session}/resume")
        await account.say(session, "[[history]]")
        found = await idle(account, session)
        told = json.loads((await texts(account, session))[-1])["history"]
        assert told[0] == ["user", "[[bash:touch made.txt]][[say:made it]]"]
        assert ["assistant", "made it"] in told
        assert found["nativeId"] == native_id
        await until(account, session, lambda found: found["usage"]["inputTokens"] > 0)
    assert up.agents() == []


@only_new
async def test_a_rewind_a_fork_and_an_adopted_conversation(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "apricot")
        await idle(account, session)
        await account.say(session, f"[[write:{up.desk}/made.txt:walnut]][[say:written]]")
        asked = await approval(account, session)
        await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve")
        await idle(account, session)
        assert (up.desk / "made.txt").exists()
        fork = (await account.post_json(f"/api/sessions/{session}/fork", {"title": "Another try"}))[
            "sessionId"
        ]
        written = await seq_of(account, session, "walnut")
        rewound = await account.post_json(f"/api/sessions/{session}/rewind", {"seq": written})
        assert rewound["files"]["status"] == "full"
        assert rewound["files"]["restored"] == [str(up.desk / "made.txt")]
        assert not (up.desk / "made.txt").exists()
        assert await remembered(account, session) == ["apricot", "echo: apricot"]
        assert "written" in await remembered(account, fork)
        source = (await account.session(session))["nativeId"]

    async with up.started() as account:
        (machine,) = (await account.get_json("/api/machines"))["machines"]
        where = f"/api/machines/{machine['id']}"
        listed = (await account.get_json(f"{where}/conversations?agent=droid"))["conversations"]
        ours = {one["nativeId"]: one["sessionId"] for one in listed}
        assert ours[source] == session
        # The rewound conversation is still stored under its old id and belongs to no session.
        left = [one["nativeId"] for one in listed if one["sessionId"] is None]
        adopted = (await account.post_json(f"{where}/import", {"agent": "droid", "nativeId": left[0]}))[
            "sessionId"
        ]
        assert "written" in await texts(account, adopted)
        assert "written" in await remembered(account, adopted)
    assert up.agents() == []


async def seq_of(account: Account, session: str, word: str) -> int:
    (found,) = [
        entry["seq"]
        for entry in await account.messages(session, limit=200)
        if entry["content"]["kind"] == "user_message" and word in entry["content"]["text"]
    ]
    return found


async def remembered(account: Account, session: str) -> list[str]:
    """Return the texts that the model was shown before this question."""
    await account.say(session, "[[history]]")
    await idle(account, session)
    return [head for _, head in json.loads((await texts(account, session))[-1])["history"]][:-1]


async def test_kill_9_of_hub_and_runner_during_a_turn(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[say:remember the dolphin]]")
        await idle(account, session)
        await account.say(session, "[[bash:touch running; sleep 300]]")
        asked = await approval(account, session)
        await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve")
        await eventually((up.desk / "running").exists, STEP_TIMEOUT)
        await up.end(signal.SIGKILL)
    await eventually(lambda: not up.agents(), STEP_TIMEOUT)

    async with up.started() as account:
        ends = [
            entry["content"]["reason"]
            for entry in await account.messages(session, limit=200)
            if entry["content"]["kind"] == "turn_end"
        ]
        assert ends == ["end_turn", "lost"]
        await account.say(session, "[[history]]")
        await idle(account, session)
        assert ["assistant", "remember the dolphin"] in json.loads((await texts(account, session))[-1])[
            "history"
        ]
