"""The simulator's lines: messages of the user, control requests, and the queue of turns."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from typing import Any

from farsteer.core.ids import new_id
from farsteer.core.lines import Oversized
from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter
from tests.support.claude_simulator.commands import perform
from tests.support.claude_simulator.store import Conversation, Json
from tests.support.claude_simulator.turn import Session, Turn, TurnAborted

_COMMANDS = [{"name": "compact", "description": "Free up context", "argumentHint": ""}]
_MODELS = [{"value": name, "displayName": name, "description": ""} for name in ("default", "sim-1", "sim-2")]


class RequestFailed(Exception):
    """The control request is answered with an error."""


class Simulator:
    def __init__(self, writer: StdoutWriter, conversation: Conversation, given: argparse.Namespace) -> None:
        self._writer = writer
        self._conversation = conversation
        self._settings: Json = json.loads(given.settings) if given.settings else {}
        self._start = "startup" if given.resume is None else "fork" if given.fork_session else "resume"
        self._session = Session(
            mode=given.permission_mode, model=given.model, effort=given.effort, hook=None, rules=set()
        )
        self._queue: dict[str, Json] = {}
        """Messages that have not begun a turn, by their uuid."""
        self._arrived = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[Json]] = {}
        self._turn: Turn | None = None
        self._running: asyncio.Task[None] | None = None
        self._exit_code = 0

    async def run(self, reader: StdinReader) -> int:
        """Serve until the input ends. Returns the exit code."""
        async with asyncio.TaskGroup() as group:
            worker = group.create_task(self._work())
            async for batch in reader.batches():
                for line in batch:
                    if not isinstance(line, Oversized):
                        await self._handle(json.loads(line))
            if self._turn is not None and self._turn.ignores_interrupts:
                await asyncio.shield(worker)
            if self._running is not None:
                self._running.cancel()
            worker.cancel()
        if self._conversation.records and self._conversation.totals:
            self._conversation.note("cost-state", modelUsage=self._conversation.totals)
        return self._exit_code

    async def _write(self, message: Json) -> None:
        line = {**message, "uuid": message.get("uuid") or new_id(), "session_id": self._conversation.id}
        await self._writer.write(json.dumps(line).encode() + b"\n")

    async def _write_raw(self, line: bytes) -> None:
        await self._writer.write(line)

    async def _handle(self, message: Json) -> None:
        match message["type"]:
            case "user":
                await self._enqueue(message)
            case "control_request":
                await self._answer(message["request_id"], message["request"])
            case "control_response":
                answer = message["response"]
                waiting = self._waiting.get(answer["request_id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
                # With --replay-user-messages it repeats what it is sent.
                await self._write(message)
            case _:
                pass

    # -- turns

    async def _enqueue(self, message: Json) -> None:
        self._queue[message["uuid"]] = message
        await self._lifecycle(message["uuid"], "queued")
        self._conversation.note("queue-operation", operation="enqueue")
        self._arrived.set()

    async def _lifecycle(self, uuid: str, state: str) -> None:
        await self._write({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._queue:
                message = self._queue.pop(next(iter(self._queue)))
                running = self._running = asyncio.create_task(self._run_turn(message))
                await asyncio.wait([running])
                running.result()

    async def _run_turn(self, message: Json) -> None:
        uuid = message["uuid"]
        turn = self._turn = Turn(
            self._conversation, self._session, self._write, self._ask, self._take_steered, self._write_raw
        )
        state = "completed"
        try:
            await self._take(message)
            await perform(turn, _text(message))
            await turn.end()
        except asyncio.CancelledError:
            state = "cancelled"
            await self._cancel_requests()
            await turn.abort("aborted_streaming")
        except TurnAborted:
            state = "cancelled"
            await turn.abort("aborted_tools")
        finally:
            turn.kill_commands()
            self._turn = self._running = None
        self._exit_code = int(state == "cancelled")
        await self._lifecycle(uuid, state)

    async def _take(self, message: Json) -> None:
        """Make a message part of the conversation."""
        uuid = message["uuid"]
        await self._lifecycle(uuid, "started")
        self._conversation.add("user", message["message"], uuid)
        self._conversation.begin_snapshot(uuid)
        await self._write(
            {"type": "system", "subtype": "init", "model": self._session["model"], "tools": [],
             "permissionMode": self._session["mode"], "cwd": os.getcwd(), "mcp_servers": []}
        )  # fmt: skip
        await self._write({**message, "isReplay": True})

    async def _take_steered(self) -> None:
        """Give the model the messages that have arrived during the turn, with the result of a tool."""
        while self._queue:
            message = self._queue.pop(next(iter(self._queue)))
            await self._take(message)
            await self._lifecycle(message["uuid"], "completed")

    # -- control requests

    async def _ask(self, request: Json) -> Json:
        request_id = new_id()
        answer = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        await self._write({"type": "control_request", "request_id": request_id, "request": request})
        try:
            found = await answer
            return found.get("response") or {} if found["subtype"] == "success" else {"error": found["error"]}
        finally:
            self._waiting.pop(request_id, None)

    async def _cancel_requests(self) -> None:
        for request_id in [*self._waiting]:
            await self._write({"type": "control_cancel_request", "request_id": request_id})
        self._waiting.clear()

    async def _answer(self, request_id: str, request: Json) -> None:
        result: Json = {"subtype": "success", "request_id": request_id}
        try:
            result["response"] = await self._perform(request)
        except RequestFailed as error:
            result = {"subtype": "error", "request_id": request_id, "error": str(error)}
        await self._write({"type": "control_response", "response": result})
        if request["subtype"] == "set_permission_mode":
            mode = self._session["mode"]
            await self._write({"type": "system", "subtype": "status", "status": None, "permissionMode": mode})

    async def _perform(self, request: Json) -> Any:
        match request["subtype"]:
            case "initialize":
                hooks = request.get("hooks", {}).get("PreToolUse", [])
                self._session["hook"] = hooks[0]["hookCallbackIds"][0] if hooks else None
                await self._run_start_hooks()
                return {"commands": _COMMANDS, "models": _MODELS}
            case "interrupt":
                if self._turn is not None and self._running is not None and not self._turn.ignores_interrupts:
                    self._running.cancel()
                return {"still_queued": [*self._queue]}
            case "cancel_async_message":
                uuid = request["message_uuid"]
                cancelled = self._queue.pop(uuid, None) is not None
                if cancelled:
                    await self._lifecycle(uuid, "cancelled")
                return {"cancelled": cancelled, "message_uuid": uuid}
            case "set_permission_mode":
                if request["mode"] == "bypassPermissions":
                    raise RequestFailed("Cannot set permission mode to bypassPermissions")
                self._session["mode"] = request["mode"]
                return {"mode": request["mode"]}
            case "set_model":
                self._session["model"] = request["model"]
                return {"model": request["model"]}
            case "apply_flag_settings":
                self._session["effort"] = request["settings"].get("effortLevel")
                return None
            case "rewind_files":
                dry_run = request.get("dry_run", False)
                return self._conversation.rewind_files(request["user_message_id"], dry_run=dry_run)
            case "mcp_set_servers":
                return {"added": [*request["servers"]], "removed": [], "errors": {}}
            case subtype:
                raise RequestFailed(f"Unsupported control request subtype: {subtype}")

    async def _run_start_hooks(self) -> None:
        """Run the commands of the settings for the event `SessionStart`."""
        payload = {
            "session_id": self._conversation.id,
            "hook_event_name": "SessionStart",
            "source": self._start,
        }
        name = f"SessionStart:{self._start}"
        for group in self._settings.get("hooks", {}).get("SessionStart", []):
            for hook in group["hooks"]:
                process = await asyncio.create_subprocess_exec(
                    "/bin/sh", "-c", hook["command"], stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                )  # fmt: skip
                stdout, stderr = await process.communicate(json.dumps(payload).encode())
                await self._write(
                    {"type": "system", "subtype": "hook_response", "hook_event": "SessionStart", "hook_name": name,
                     "stdout": stdout.decode(), "stderr": stderr.decode(), "exit_code": process.returncode,
                     "outcome": "error" if process.returncode else "success"}
                )  # fmt: skip


def _text(message: Json) -> str:
    content = message["message"]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")
