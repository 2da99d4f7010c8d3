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
from tests.support.acp_simulator.store import Session, StoredTurn

Json = dict[str, Any]
_request_ids = count()


class TurnOver(Exception):
    """The turn ends with this stop reason."""

    def __init__(self, stop_reason: str) -> None:
        super().__init__(stop_reason)
        self.stop_reason = stop_reason


class Turn:
    def __init__(
        self, session: Session, text: str, faults: frozenset[str], write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        self.session = session
        self.stored = StoredTurn(text)
        self.faults = faults
        self.mode: Callable[[], str] = lambda: "ask"
        self.set_mode: Callable[[str], Awaitable[None]]
        self.waiting: dict[int, asyncio.Future[Json]] = {}
        self.ignores_cancel = False
        self.usage: Json | None = None
        self._write = write
        self._process: asyncio.subprocess.Process | None = None

    async def write(self, message: Json) -> None:
        await self._write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def write_raw(self, line: bytes) -> None:
        await self._write(line)

    async def update(self, variant: str, **fields: Any) -> None:
        update = {"sessionUpdate": variant, **fields}
        await self.write(
            {"method": "session/update", "params": {"sessionId": self.session.id, "update": update}}
        )

    async def request(self, method: str, **params: Any) -> Json:
        """Ask the client. Returns its whole answer."""
        request_id = next(_request_ids)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.waiting[request_id] = answer
        await self.write(
            {"id": request_id, "method": method, "params": {"sessionId": self.session.id, **params}}
        )
        try:
            return await answer
        finally:
            del self.waiting[request_id]

    # -- messages

    async def say(self, text: str, pace: float = 0.0, kind: str = "agent_message_chunk") -> None:
        extra = {} if "no_message_ids" in self.faults else {"messageId": new_id()}
        words = [f"{word} " for word in text.split()] if pace else text.splitlines(keepends=True)
        for word in words:
            await self.update(kind, content={"type": "text", "text": word}, **extra)
            if pace:
                await asyncio.sleep(pace)
        self.stored.updates.append({"sessionUpdate": kind, "text": text, **extra})

    async def think(self, text: str) -> None:
        await self.say(text, kind="agent_thought_chunk")

    # -- tools

    async def change_file(self, name: str, text: str) -> None:
        path = os.path.join(self.session.cwd, name)
        call = f"call_{new_id()}"
        diff = {"type": "diff", "path": path, "oldText": None, "newText": text}
        shown = {"title": f"Write {name}", "kind": "edit", "locations": [{"path": path}]}
        await self.update("tool_call", toolCallId=call, status="pending", rawInput={"path": path}, **shown)
        if await self.is_allowed(toolCallId=call, content=[diff], **shown):
            await asyncio.to_thread(Path(path).write_text, f"{text}\n")
            await self.update("tool_call_update", toolCallId=call, status="completed", content=[diff])
        else:
            await self.update("tool_call_update", toolCallId=call, status="failed")

    async def run_command(self, command: str) -> None:
        call = f"call_{new_id()}"
        shown = {"title": command, "kind": "execute", "rawInput": {"command": command}}
        await self.update("tool_call", toolCallId=call, status="pending", **shown)
        if not await self.is_allowed(toolCallId=call):
            await self.update("tool_call_update", toolCallId=call, status="failed")
            return
        self._process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command, cwd=self.session.cwd, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        await self.update("tool_call_update", toolCallId=call, status="in_progress")
        output = (await self._process.communicate())[0].decode()
        status = "failed" if self._process.returncode else "completed"
        self._process = None
        content = [{"type": "content", "content": {"type": "text", "text": output}}]
        await self.update("tool_call_update", toolCallId=call, content=content)
        await self.update(
            "tool_call_update", toolCallId=call, status=status, content=content, rawOutput={"output": output}
        )

    async def is_allowed(self, **call: Any) -> bool:
        return self.mode() == "yolo" or await self.ask(call) in ("yes", "always")

    async def ask(self, call: Json, options: list[Json] | None = None) -> str | None:
        """Ask for a permission. Returns the chosen option. Raises TurnOver if the client cancels."""
        offered = options or [
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        answer = await self.request("session/request_permission", toolCall=call, options=offered)
        outcome = answer.get("result", {}).get("outcome", {})
        if outcome.get("outcome") != "selected":
            raise TurnOver("cancelled")
        return outcome.get("optionId")

    def kill_command(self) -> None:
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
