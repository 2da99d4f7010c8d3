"""A real hub, server and runner with the demo agent, in this process on a free port."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from farsteer.cli.daemon.in_process import connected_runner
from farsteer.client.config import hub_file, token_file
from farsteer.faces.app import ServerConfig, serve
from farsteer.hub import Hub
from tests.support.eventually import eventually

OWNER = "the-owners-token-of-these-tests"


class Account(httpx.AsyncClient):
    """A signed-in HTTP client with the calls that most tests need."""

    async def get_json(self, path: str, status: int = 200, **query: Any) -> Any:
        response = await self.get(path, params=query)
        assert response.status_code == status, response.text
        return response.json()

    async def post_json(self, path: str, body: Any = None, status: int = 200) -> Any:
        response = await self.post(path, json=body)
        assert response.status_code == status, response.text
        return response.json()

    async def session(self, session_id: str) -> Any:
        return (await self.get_json(f"/api/sessions/{session_id}"))["session"]

    async def messages(self, session_id: str, **query: Any) -> list[Any]:
        return (await self.get_json(f"/api/sessions/{session_id}/messages", **query))["messages"]

    async def say(self, session_id: str, text: str, **more: Any) -> str:
        """Send a message and return the id of its queue item."""
        path = f"/api/sessions/{session_id}/messages"
        return (await self.post_json(path, {"text": text, **more}, 202))["id"]

    async def until(self, session_id: str, status: str) -> Any:
        """Return the session once it has this status and its queue is empty."""
        found: dict[str, Any] = {}

        async def reached() -> bool:
            found.update(await self.session(session_id))
            return found["status"] == status and not (status == "idle" and found["queue"])

        await eventually(reached)
        return found

    async def shows(self, session_id: str, **fields: Any) -> None:
        """Wait until the session has these fields."""

        async def shown() -> bool:
            session = await self.session(session_id)
            return all(session[name] == value for name, value in fields.items())

        await eventually(shown)

    async def turn(self, session_id: str, text: str) -> list[Any]:
        """Send a message, wait for the end of the turn and return the whole log."""
        item = await self.say(session_id, text)

        async def ended() -> bool:
            log = await self.messages(session_id, limit=200)
            turns = [entry["content"] for entry in log if entry["content"]["kind"].startswith("turn_")]
            mine = {turn["turnId"] for turn in turns if turn.get("itemId") == item}
            return any(turn["kind"] == "turn_end" and turn["turnId"] in mine for turn in turns)

        await eventually(ended)
        return await self.messages(session_id, limit=200)


@dataclass(slots=True)
class Stack:
    hub: Hub
    url: str
    home: Path
    opened: AsyncExitStack
    runner: AsyncExitStack

    async def connect(self) -> httpx.AsyncClient:
        """Return an HTTP client that is not signed in."""
        return await self.opened.enter_async_context(httpx.AsyncClient(base_url=self.url, timeout=30))

    async def sign_in(self, access_token: str = OWNER, **claims: str) -> Account:
        account = await self.opened.enter_async_context(Account(base_url=self.url, timeout=30))
        answer = await account.post_json("/api/auth", {"accessToken": access_token, **claims})
        account.headers["authorization"] = f"Bearer {answer['token']}"
        return account

    async def start_runner(self) -> None:
        await self.runner.enter_async_context(connected_runner(self.hub, self.home))

    async def stop_runner(self) -> None:
        """Stop the runner, and wait until the hub has noticed."""
        await self.runner.aclose()

        async def is_noticed() -> bool:
            return not any(machine.active for machine in await self.hub.store.list_machines("default"))

        await eventually(is_noticed)

    def directory(self, name: str = "project") -> str:
        path = self.home.parent / name
        path.mkdir(exist_ok=True)
        return str(path)

    async def create(self, account: Account, **fields: Any) -> str:
        """Create a session of the demo agent and return its id."""
        machines = (await account.get_json("/api/machines"))["machines"]
        body = {"machineId": machines[0]["id"], "directory": self.directory(), "agent": "demo", **fields}
        return (await account.post_json("/api/sessions", body))["sessionId"]


def announce(stack: Stack) -> None:
    """Write `hub.json` as `farsteer up` does, so that commands find the hub by its home."""
    hub_file(stack.home).write_text(json.dumps({"url": stack.url, "pid": os.getpid()}))
    token_file(stack.home).write_text(OWNER)


@asynccontextmanager
async def farsteer(
    home: Path, *, with_runner: bool = True, seconds: float = 60, **config: Any
) -> AsyncGenerator[Stack]:
    async with asyncio.timeout(seconds), AsyncExitStack() as opened:
        hub = await Hub.open(home, OWNER)
        opened.push_async_callback(hub.close)
        url = await opened.enter_async_context(serve(hub, ServerConfig(port=0, **config)))
        runner = await opened.enter_async_context(AsyncExitStack())
        stack = Stack(hub, url, home, opened, runner)
        if with_runner:
            await stack.start_runner()
        yield stack
