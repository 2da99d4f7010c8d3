"""`farsteer up` with a real agent, used over REST, and stopped or killed during the test."""

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

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stack import OWNER, Account

WAIT = 60.0


class Up:
    """`farsteer up` as a process that is stopped or killed and started again on the same home."""

    def __init__(self, agent: str, desk: Path, log: Path, program: str | None = None) -> None:
        self.agent = agent
        self.program = program or agent
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
            async with Account(base_url=f"http://127.0.0.1:{self.port}", timeout=WAIT) as account:
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
        """Return the running processes of the agent. Their name is the program's, or its interpreter runs it."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter(["name", "cwd", "cmdline"]):
            named = [Path(part).name for part in (process.info["cmdline"] or [])[:2]]
            is_agent = not {self.agent, self.program}.isdisjoint((process.info["name"], *named))
            if is_agent and process.info["cwd"] == str(self.desk):
                found.append(process)
        return found


async def until(account: Account, session: str, reached: Callable[[Any], bool]) -> Any:
    """Wait until `reached` holds for the session, and return it."""
    found: dict[str, Any] = {}

    async def look() -> bool:
        found.update(await account.session(session))
        return reached(found)

    await eventually(look, WAIT)
    return found


async def idle(account: Account, session: str) -> Any:
    return await until(account, session, lambda found: found["status"] == "idle" and not found["queue"])


async def approval(account: Account, session: str) -> Any:
    return (await until(account, session, lambda found: bool(found["approvals"])))["approvals"][0]


async def texts(account: Account, session: str) -> list[str]:
    log = await account.messages(session, limit=200)
    return [entry["content"]["text"] for entry in log if entry["content"]["kind"] == "agent_message"]


async def create(account: Account, up: Up, **more: Any) -> str:
    (machine,) = (await account.get_json("/api/machines"))["machines"]
    (agent,) = [agent for agent in machine["agents"] if agent["name"] == up.agent]
    assert agent["available"], agent
    body = {"machineId": machine["id"], "directory": str(up.desk), "agent": up.agent, **more}
    return (await account.post_json("/api/sessions", body))["sessionId"]


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
