"""The simulator's methods: threads and turns."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from typing import Any

from farsteer.core.ids import new_id
from farsteer.core.lines import Oversized
from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter
from tests.support.codex_simulator import store
from tests.support.codex_simulator.commands import perform
from tests.support.codex_simulator.store import Thread
from tests.support.codex_simulator.turn import Json, Turn, TurnOver

_MODELS = ("sim-1", "sim-2")
_INVALID_REQUEST = -32600
_SANDBOXES = {
    "read-only": "readOnly",
    "workspace-write": "workspaceWrite",
    "danger-full-access": "dangerFullAccess",
}


class RequestFailed(Exception):
    """The request is answered with an error."""


class Simulator:
    def __init__(self, writer: StdoutWriter) -> None:
        self._writer = writer
        self._threads: dict[str, Thread] = {}
        self._turn: Turn | None = None
        self._running: asyncio.Task[None] | None = None
        self._methods: dict[str, Callable[[Json], Awaitable[Any]]] = {
            "initialize": self._initialize, "thread/start": self._start, "thread/resume": self._resume,
            "thread/fork": self._fork, "thread/revert": self._revert, "thread/read": self._read,
            "thread/list": self._list, "thread/turns/list": self._list_turns, "thread/items/list": self._list_items,
            "thread/delete": self._delete,
            "turn/start": self._start_turn, "turn/steer": self._steer, "turn/interrupt": self._interrupt,
            "model/list": self._list_models,
        }  # fmt: skip

    async def run(self, reader: StdinReader) -> None:
        async for batch in reader.batches():
            for line in batch:
                if not isinstance(line, Oversized):
                    await self._handle(json.loads(line))
        if self._turn is not None and self._turn.ignores_interrupts and self._running is not None:
            await self._running

    async def _handle(self, message: Json) -> None:
        method, request_id = message.get("method"), message.get("id")
        if method is None:
            waiting = self._turn.waiting.get(message["id"]) if self._turn is not None else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            return
        if request_id is None:
            return
        try:
            handle = self._methods.get(method)
            if handle is None:
                raise RequestFailed(f"Invalid request: unknown variant `{method}`")
            answer: Json = {"id": request_id, "result": await handle(message["params"])}
        except RequestFailed as error:
            answer = {"id": request_id, "error": {"code": _INVALID_REQUEST, "message": str(error)}}
        await self._write(json.dumps(answer).encode() + b"\n")
        if method == "turn/start" and "result" in answer and self._turn is not None:
            self._running = asyncio.create_task(self._run_turn(self._turn, message["params"]))

    async def _write(self, line: bytes) -> None:
        await self._writer.write(line)

    # -- threads

    async def _initialize(self, params: Json) -> Json:
        return {"userAgent": "simulator"}

    async def _start(self, params: Json) -> Json:
        return self._open(Thread(new_id(), params["cwd"], settings={"model": _MODELS[0]}), params)

    async def _resume(self, params: Json) -> Json:
        return self._open(self._stored(params["threadId"]), params)

    async def _fork(self, params: Json) -> Json:
        source = self._stored(params["threadId"])
        turns, last = copy.deepcopy(source.turns), params.get("lastTurnId")
        if last is not None:
            turns = turns[: self._position(source, last) + 1]
        forked = Thread(new_id(), source.cwd, turns, {**source.settings})
        store.save(forked)
        return self._open(forked, params)

    async def _revert(self, params: Json) -> Json:
        thread = self._threads[params["threadId"]]
        thread.turns = thread.turns[: self._position(thread, params["beforeTurnId"])]
        store.save(thread)
        return {"thread": thread.describe()}

    def _open(self, thread: Thread, params: Json) -> Json:
        self._threads[thread.id] = thread
        settings = thread.settings
        settings["approvalPolicy"] = params.get("approvalPolicy")
        settings["sandbox"] = _SANDBOXES[params["sandbox"]]
        settings["model"] = params.get("model") or settings["model"]
        return {
            "thread": thread.describe(), "model": settings["model"], "reasoningEffort": settings.get("effort"),
            "sandbox": {"type": settings["sandbox"]}, "approvalPolicy": settings["approvalPolicy"],
        }  # fmt: skip

    def _stored(self, thread_id: str) -> Thread:
        thread = store.load(thread_id)
        if thread is None:
            raise RequestFailed(f"no rollout found for thread id {thread_id}")
        return thread

    def _position(self, thread: Thread, turn_id: str) -> int:
        for position, turn in enumerate(thread.turns):
            if turn["id"] == turn_id:
                return position
        raise RequestFailed(f"turn not found: {turn_id}")

    async def _read(self, params: Json) -> Json:
        return {"thread": self._stored(params["threadId"]).describe()}

    async def _list(self, params: Json) -> Json:
        found = [one for one in store.newest_first() if params.get("cwd") in (None, one.cwd)]
        return self._page([thread.describe() for thread in found], params)

    async def _list_turns(self, params: Json) -> Json:
        turns = copy.deepcopy(self._stored(params["threadId"]).turns)
        if params.get("sortDirection") == "desc":
            turns.reverse()
        return self._page(turns, params)

    async def _list_items(self, params: Json) -> Json:
        turns = self._stored(params["threadId"]).turns
        return self._page(
            [{"turnId": turn["id"], "item": item} for turn in turns for item in turn["items"]], params
        )

    def _page(self, entries: list[Json], params: Json) -> Json:
        begin = int(params.get("cursor") or 0)
        end = begin + int(params["limit"])
        return {"data": entries[begin:end], "nextCursor": str(end) if end < len(entries) else None}

    async def _delete(self, params: Json) -> Json:
        if not store.delete(params["threadId"]):
            raise RequestFailed(f"thread not found: {params['threadId']}")
        return {}

    async def _list_models(self, params: Json) -> Json:
        return {"data": [{"id": name, "hidden": False} for name in _MODELS]}

    # -- turns

    async def _start_turn(self, params: Json) -> Json:
        thread = self._threads[params["threadId"]]
        if self._turn is not None:
            raise RequestFailed("a turn is running")
        for name in ("approvalPolicy", "model", "effort"):
            if params.get(name) is not None:
                thread.settings[name] = params[name]
        if params.get("sandboxPolicy"):
            thread.settings["sandbox"] = params["sandboxPolicy"]["type"]
        if params.get("collaborationMode"):
            thread.settings["mode"] = params["collaborationMode"]["mode"]
        self._turn = Turn(thread, self._write)
        return {"turn": {"id": self._turn.id, "status": "inProgress", "items": [], "error": None}}

    async def _run_turn(self, turn: Turn, params: Json) -> None:
        await turn.begin(params["input"], params.get("clientUserMessageId"))
        try:
            await perform(turn, params["input"][0]["text"])
            for steered in turn.steered:
                await turn.add_user_message(steered["input"], steered.get("clientUserMessageId"))
                await perform(turn, steered["input"][0]["text"])
            status = "completed"
        except (TurnOver, asyncio.CancelledError):
            status = "interrupted"
        finally:
            turn.kill_command()
            self._turn = self._running = None
        await turn.end(status)

    def _current(self, turn_id: str) -> Turn:
        if self._turn is None or self._turn.id != turn_id:
            raise RequestFailed("no active turn")
        return self._turn

    async def _steer(self, params: Json) -> Json:
        self._current(params["expectedTurnId"]).steered.append(params)
        return {"turnId": params["expectedTurnId"]}

    async def _interrupt(self, params: Json) -> Json:
        if not self._current(params["turnId"]).ignores_interrupts and self._running is not None:
            self._running.cancel()
        return {}
