"""A turn of the simulator: what it writes, and what it asks for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

from farsteer.core.ids import new_id
from tests.support.codex_simulator import store
from tests.support.codex_simulator.store import Thread

Json = dict[str, Any]
_request_ids = count()


class TurnOver(Exception):
    """The turn ends as interrupted."""


class Turn:
    def __init__(self, thread: Thread, write: Callable[[bytes], Awaitable[None]]) -> None:
        self.id = new_id()
        self.thread = thread
        self.thread_id = thread.id
        """The thread that notifications name: the one of the session or of a sub-agent."""
        self.items: list[Json] = []
        self.steered: list[Json] = []
        self.waiting: dict[int, asyncio.Future[Json]] = {}
        self.ignores_interrupts = False
        self.is_over = False
        self._write = write
        self._process: asyncio.subprocess.Process | None = None

    async def write(self, message: Json) -> None:
        await self._write(json.dumps(message).encode() + b"\n")

    async def write_raw(self, line: bytes) -> None:
        await self._write(line)

    async def notify(self, method: str, **params: Any) -> None:
        await self.write(
            {"method": method, "params": {"threadId": self.thread_id, "turnId": self.id, **params}}
        )

    async def request(self, method: str, **params: Any) -> Json:
        """Ask the client. Returns its whole answer."""
        request_id = next(_request_ids)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.waiting[request_id] = answer
        given = {"threadId": self.thread_id, "turnId": self.id, **params}
        await self.write({"id": request_id, "method": method, "params": given})
        try:
            return await answer
        finally:
            del self.waiting[request_id]
            await self.notify("serverRequest/resolved", requestId=request_id)

    # -- begin and end

    async def begin(self, content: list[Json], client_id: str | None) -> None:
        await self.notify("turn/started", turn=self._describe("inProgress"))
        await self.add_user_message(content, client_id)

    async def add_user_message(self, content: list[Json], client_id: str | None) -> None:
        item = {"type": "userMessage", "id": new_id(), "clientId": client_id, "content": content}
        self.items.append(item)
        self.save("inProgress")
        await self.notify("item/completed", item=item)

    async def end(self, status: str, error: Json | None = None) -> None:
        if not self.is_over:
            self.is_over = True
            self.save(status)
            await self.notify("turn/completed", turn={**self._describe(status), "error": error})

    def save(self, status: str) -> None:
        turn = {"id": self.id, "status": status, "items": self.items}
        turns = self.thread.turns
        self.thread.turns = [*turns[:-1], turn] if turns and turns[-1]["id"] == self.id else [*turns, turn]
        store.save(self.thread)

    def _describe(self, status: str) -> Json:
        return {"id": self.id, "status": status, "items": [], "error": None}

    # -- items

    async def add_item(self, item: Json) -> None:
        if self.thread_id == self.thread.id:
            self.items.append(item)
        await self.notify("item/completed", item=item)

    async def begin_message(self) -> str:
        message_id = f"msg_{new_id()}"
        await self.notify("item/started", item={"type": "agentMessage", "id": message_id, "text": ""})
        return message_id

    async def say(self, text: str, pace: float = 0.0) -> None:
        message_id = await self.begin_message()
        for word in text.splitlines(keepends=True) if not pace else [f"{word} " for word in text.split()]:
            await self.notify("item/agentMessage/delta", itemId=message_id, delta=word)
            if pace:
                await asyncio.sleep(pace)
        await self.add_item({"type": "agentMessage", "id": message_id, "text": text})

    async def think(self, text: str) -> None:
        item: Json = {"type": "reasoning", "id": f"rs_{new_id()}", "summary": [], "content": []}
        await self.notify("item/started", item=item)
        await self.notify("item/reasoning/summaryTextDelta", itemId=item["id"], summaryIndex=0, delta=text)
        await self.add_item({**item, "summary": [text]})

    # -- tools

    @property
    def asks(self) -> bool:
        return self.thread.settings.get("approvalPolicy") != "never"

    async def change_file(self, name: str, text: str) -> None:
        path = os.path.join(self.thread.cwd, name)
        change = {"path": path, "kind": {"type": "add"}, "diff": f"{text}\n"}
        item: Json = {
            "type": "fileChange",
            "id": f"call_{new_id()}",
            "changes": [change],
            "status": "inProgress",
        }
        await self.notify("item/started", item=item)
        allowed = not self.asks or await self.ask("item/fileChange/requestApproval", itemId=item["id"])
        if allowed:
            await asyncio.to_thread(Path(path).write_text, f"{text}\n")
        await self.add_item({**item, "status": "completed" if allowed else "declined"})

    async def run_command(self, command: str) -> None:
        item: Json = {
            "type": "commandExecution", "id": f"call_{new_id()}", "command": f"/bin/bash -lc '{command}'",
            "cwd": self.thread.cwd, "status": "inProgress", "commandActions": [],
        }  # fmt: skip
        await self.notify("item/started", item=item)
        if self.asks:
            shown = {"kind": "command", "itemId": item["id"], "command": item["command"], "cwd": item["cwd"]}
            amendment = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": command.split()}}
            if not await self.ask(
                "item/commandExecution/requestApproval",
                **shown,
                availableDecisions=["accept", amendment, "cancel"],
            ):
                await self.add_item({**item, "status": "declined"})
                return
        self._process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command, cwd=self.thread.cwd, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        output = (await self._process.communicate())[0].decode()
        code = self._process.returncode
        self._process = None
        await self.notify("item/commandExecution/outputDelta", itemId=item["id"], delta=output)
        status = "failed" if code else "completed"
        await self.add_item({**item, "status": status, "exitCode": code, "aggregatedOutput": output})

    async def ask(self, method: str, **params: Any) -> bool:
        """Return whether the client allows it. Raises TurnOver if it cancels the turn."""
        decision = (await self.request(method, **params)).get("result", {}).get("decision")
        if decision == "cancel":
            raise TurnOver
        return decision in ("accept", "acceptForSession") or isinstance(decision, dict)

    def kill_command(self) -> None:
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
