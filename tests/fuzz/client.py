"""The well-behaved client beside the attacks: REST, Socket.IO and ACP. None of its requests may fail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import socketio
from websockets.asyncio.client import connect

from tests.support.acp_client import Editor, WebSocketTransport, choose_option
from tests.support.stack import Account
from tests.support.stalls import TOKEN

SECONDS = 30.0
"""The longest that an answer may take on a busy machine."""
_ROUNDS_PER_CONNECTION = 25


class WellBehavedClient:
    def __init__(self, url: str, directory: Path) -> None:
        self._url = url
        self._directory = str(directory)
        self._session: str | None = None
        self.rounds = 0
        self.slowest = 0.0
        """Seconds of the slowest round: it contains the work of two turns."""

    async def run(self) -> None:
        """Use the hub until cancelled. Raises what failed."""
        while True:
            async with self._connected() as (account, received, editor):
                session = self._session
                if session is None:
                    session = self._session = await self._create(account)
                editing = (await editor.new(self._directory))["sessionId"]
                for _ in range(_ROUNDS_PER_CONNECTION):
                    begun = time.monotonic()
                    async with asyncio.timeout(SECONDS):
                        await self._round(account, received, editor, session, editing)
                    self.slowest = max(self.slowest, time.monotonic() - begun)
                    self.rounds += 1
                await editor.call("session/delete", sessionId=editing)

    async def _round(
        self, account: Account, received: asyncio.Queue[str], editor: Editor, session: str, editing: str
    ) -> None:
        """One message each way over REST and Socket.IO, and one turn in an editor."""
        word = f"round-{self.rounds}"
        await account.say(session, f"say {word}")
        while await received.get() != word:
            pass
        assert (await account.session(session))["id"] == session
        editor.clear()
        assert await editor.prompt(editing, f"say {word}") == "end_turn"
        assert editor.text() == word

    async def _create(self, account: Account) -> str:
        machines = (await account.get_json("/api/machines"))["machines"]
        body = {"machineId": machines[0]["id"], "directory": self._directory, "agent": "demo"}
        return (await account.post_json("/api/sessions", body))["sessionId"]

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[Account, asyncio.Queue[str], Editor]]:
        async with Account(base_url=self._url, timeout=httpx.Timeout(SECONDS)) as account:
            answer = await account.post_json("/api/auth", {"accessToken": TOKEN})
            token = answer["token"]
            account.headers["authorization"] = f"Bearer {token}"
            received: asyncio.Queue[str] = asyncio.Queue()
            events = socketio.AsyncClient(reconnection=False)

            def on_event(event: dict[str, dict[str, dict[str, str]]]) -> None:
                received.put_nowait(event.get("message", {}).get("content", {}).get("text", ""))

            events.on("event", on_event, namespace="/events")
            await events.connect(
                self._url, auth={"token": token, "types": ["message-received"]}, namespaces=["/events"]
            )
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with connect(
                self._url.replace("http", "ws", 1) + "/acp",
                additional_headers=headers,
                max_size=None,
                proxy=None,
            ) as socket:
                editor = Editor(WebSocketTransport(socket), choose_option("allow_once"))
                running = asyncio.create_task(editor.peer.run())
                try:
                    await editor.initialize()
                    yield account, received, editor
                finally:
                    await socket.close()
                    await running
                    await events.disconnect()
