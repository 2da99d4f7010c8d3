"""The simulator's methods: sessions, settings and turns."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from farsteer.core.ids import new_id
from farsteer.core.lines import Oversized
from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter
from tests.support.acp_simulator import store
from tests.support.acp_simulator.commands import perform
from tests.support.acp_simulator.store import Session
from tests.support.acp_simulator.turn import Json, Turn, TurnOver

FAULTS = {
    "needs_login": "every session needs `authenticate` with the method `key` first",
    "no_resume": "announces session/resume and answers that there is no such method",
    "load_only": "can load a session, and neither resume, fork, list, close nor delete",
    "vague_errors": "says of a missing session only that something failed",
    "late_replay": "goes on with the replay after the answer to session/load",
    "old_settings": "has `modes` and `models` instead of configuration options",
    "starts_loose": "starts in the mode yolo",
    "keeps_mode": "answers a change of its mode and does not change it",
    "new_modes": "has other modes than it had",
    "no_message_ids": "names no messages",
    "early_updates": "sends updates before the answer that names the session",
    "outlives_stdin": "goes on when its input is closed",
    "version_2": "speaks another version of the protocol",
    "noise": "writes text before the first message",
    "ends_anyhow": "answers an interrupted prompt with end_turn",
    "makes_database": "makes a file in the directory above, and fails if another process is making it",
}
_MODELS = ("sim-1", "sim-2")
_EFFORTS = ("low", "medium", "high")
_INVALID, _NO_METHOD, _INTERNAL, _NO_RESOURCE, _NO_LOGIN = -32602, -32601, -32603, -32002, -32000


class RequestFailed(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message, "data": data}


class Simulator:
    def __init__(self, writer: StdoutWriter, faults: frozenset[str]) -> None:
        self._writer = writer
        self._faults = faults
        self._sessions: dict[str, Session] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._turn: Turn | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_logged_in = "needs_login" not in faults
        self._methods: dict[str, Callable[[Json], Awaitable[Any]]] = {
            "initialize": self._initialize, "authenticate": self._authenticate, "session/new": self._new,
            "session/load": self._load, "session/resume": self._resume, "session/fork": self._fork,
            "session/list": self._list, "session/close": self._close, "session/delete": self._delete,
            "session/set_mode": self._set_mode, "session/set_model": self._set_model,
            "session/set_config_option": self._set_option,
        }  # fmt: skip
        if "load_only" in faults:
            for name in ("resume", "fork", "list", "close", "delete"):
                del self._methods[f"session/{name}"]
        if "no_resume" in faults:
            del self._methods["session/resume"]

    async def run(self, reader: StdinReader) -> None:
        if "noise" in self._faults:
            await self._writer.write(b"Welcome!\n")
        async for lines in reader.batches():
            for line in lines:
                assert not isinstance(line, Oversized)
                await self._handle(json.loads(line))
        if "outlives_stdin" in self._faults:
            signal.alarm(60)
            await asyncio.Event().wait()

    async def _handle(self, message: Json) -> None:
        method = message.get("method")
        if method is None:
            answer = self._turn.waiting.get(message["id"]) if self._turn is not None else None
            if answer is not None and not answer.done():
                answer.set_result(message)
        elif method == "session/cancel":
            if self._running is not None and self._turn is not None and not self._turn.ignores_cancel:
                self._running.cancel()
        elif method == "session/prompt":
            self._begin(message)
        elif method in self._methods:
            await self._answer(message)
        else:
            await self._send(
                {"id": message["id"], "error": {"code": _NO_METHOD, "message": "Method not found"}}
            )

    async def _answer(self, message: Json) -> None:
        try:
            result = await self._methods[message["method"]](message.get("params") or {})
        except RequestFailed as failed:
            await self._send({"id": message["id"], "error": failed.error})
        else:
            await self._send({"id": message["id"], "result": result})
            if message["method"] == "session/load" and "late_replay" in self._faults:
                await asyncio.sleep(0.05)
                await self._replay(self._sessions[message["params"]["sessionId"]])

    async def _send(self, message: Json) -> None:
        await self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _update(self, session_id: str, kind: str, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        await self._send({"method": "session/update", "params": {"sessionId": session_id, "update": update}})

    # -- sessions

    async def _initialize(self, params: Json) -> Json:
        abilities = {} if "load_only" in self._faults else {
            name: {} for name in ("list", "resume", "close", "delete", "fork", "additionalDirectories")
        }  # fmt: skip
        return {
            "protocolVersion": 2 if "version_2" in self._faults else 1,
            "agentInfo": {"name": "acp-simulator", "version": "1.0.0"},
            "agentCapabilities": {
                "loadSession": True, "promptCapabilities": {"image": True, "embeddedContext": True},
                "mcpCapabilities": {"http": True}, "sessionCapabilities": abilities,
            },
            "authMethods": [{"id": "key", "name": "API key"}] if "needs_login" in self._faults else [],
        }  # fmt: skip

    async def _authenticate(self, params: Json) -> Json:
        if params["methodId"] != "key":
            raise RequestFailed(_INVALID, "no such method")
        self._is_logged_in = True
        return {}

    def _check_login(self) -> None:
        if not self._is_logged_in:
            raise RequestFailed(_NO_LOGIN, "Authentication required")

    async def _new(self, params: Json) -> Json:
        self._check_login()
        session = Session(id=f"ses_{new_id()}", cwd=params["cwd"])
        if "early_updates" in self._faults:
            commands = [{"name": "review", "description": "reviews", "input": None}]
            await self._update(session.id, "available_commands_update", availableCommands=commands)
        return self._open(session)

    def _open(self, session: Session) -> Json:
        self._sessions[session.id] = session
        mode = "yolo" if "starts_loose" in self._faults else "ask"
        self._settings[session.id] = {"mode": mode, "model": _MODELS[0], "effort": "medium"}
        return {"sessionId": session.id, **self._described(session.id)}

    def _described(self, session_id: str) -> Json:
        given = self._settings[session_id]
        modes = ("careful", "yolo") if "new_modes" in self._faults else ("ask", "plan", "yolo")
        if "old_settings" in self._faults:
            return {
                "modes": {
                    "currentModeId": given["mode"], "availableModes": [{"id": one, "name": one} for one in modes],
                },
                "models": {
                    "currentModelId": given["model"],
                    "availableModels": [{"modelId": one, "name": one} for one in _MODELS],
                },
            }  # fmt: skip
        grouped = [
            {"group": "all", "name": "All", "options": [{"value": one, "name": one} for one in _MODELS]}
        ]
        return {"configOptions": [
            _select("mode", "mode", given["mode"], [{"value": one, "name": one} for one in modes]),
            _select("model", "model", given["model"], grouped),
            _select("effort", "thought_level", given["effort"], [{"value": one, "name": one} for one in _EFFORTS]),
            {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False},
        ]}  # fmt: skip

    def _stored(self, session_id: str) -> Session:
        self._check_login()
        session = store.load(session_id)
        if session is None and "vague_errors" in self._faults:
            raise RequestFailed(_INTERNAL, "service failure")
        if session is None:
            raise RequestFailed(_NO_RESOURCE, f"Resource not found: {session_id}")
        return session

    async def _load(self, params: Json) -> Json:
        session = self._stored(params["sessionId"])
        opened = self._open(session)
        if "late_replay" not in self._faults:
            await self._replay(session)
        return {name: value for name, value in opened.items() if name != "sessionId"}

    async def _replay(self, session: Session) -> None:
        for turn in session.turns:
            await self._update(session.id, "user_message_chunk", content={"type": "text", "text": turn.text})
            for stored in turn.updates:
                given = {key: value for key, value in stored.items() if key not in ("sessionUpdate", "text")}
                content = {"type": "text", "text": stored["text"]}
                await self._update(session.id, stored["sessionUpdate"], content=content, **given)

    async def _resume(self, params: Json) -> Json:
        opened = self._open(self._stored(params["sessionId"]))
        return {name: value for name, value in opened.items() if name != "sessionId"}

    async def _fork(self, params: Json) -> Json:
        source = self._stored(params["sessionId"])
        return self._open(Session(id=f"ses_{new_id()}", cwd=params["cwd"], turns=source.turns))

    async def _list(self, params: Json) -> Json:
        found = sorted(store.everything(), key=lambda one: one.id)
        start = int(params.get("cursor") or 0)
        page = found[start : start + 2]
        listed = [
            {
                "sessionId": one.id, "cwd": one.cwd, "title": one.turns[0].text if one.turns else None,
                "updatedAt": datetime.fromtimestamp(one.updated_at, UTC).isoformat(),
            }
            for one in page
            if params.get("cwd") in (None, one.cwd)
        ]  # fmt: skip
        more = {"nextCursor": str(start + 2)} if start + 2 < len(found) else {}
        return {"sessions": listed, **more}

    async def _close(self, params: Json) -> Json:
        self._sessions.pop(params["sessionId"], None)
        return {}

    async def _delete(self, params: Json) -> Json:
        store.delete(params["sessionId"])
        return {}

    # -- settings

    async def _set_mode(self, params: Json) -> Json:
        if params["modeId"] not in ("ask", "plan", "yolo"):
            raise RequestFailed(_INVALID, "Invalid params", {"details": "no such mode"})
        if "keeps_mode" not in self._faults:
            self._settings[params["sessionId"]]["mode"] = params["modeId"]
        return {}

    async def _set_model(self, params: Json) -> Json:
        self._settings[params["sessionId"]]["model"] = params["modelId"]
        return {}

    async def _set_option(self, params: Json) -> Json:
        if params["configId"] != "mode" or "keeps_mode" not in self._faults:
            self._settings[params["sessionId"]][params["configId"]] = params["value"]
        return self._described(params["sessionId"])

    # -- turns

    def _begin(self, message: Json) -> None:
        params = message["params"]
        text = "".join(block.get("text", "") for block in params["prompt"])
        session = self._sessions[params["sessionId"]]
        turn = self._turn = Turn(session, text, self._faults, self._writer.write)
        turn.mode = lambda: self._settings[session.id]["mode"]

        async def set_mode(mode: str) -> None:
            self._settings[session.id]["mode"] = mode
            if "old_settings" in self._faults:
                await turn.update("current_mode_update", currentModeId=mode)
            else:
                await turn.update("config_option_update", **self._described(session.id))

        turn.set_mode = set_mode
        self._running = asyncio.get_running_loop().create_task(self._run(turn, message["id"]))

    async def _run(self, turn: Turn, request_id: int) -> None:
        result: Json = {"result": {"stopReason": "end_turn"}}
        try:
            await perform(turn, turn.stored.text, self._settings[turn.session.id])
        except asyncio.CancelledError:
            result = {"result": {"stopReason": "end_turn" if "ends_anyhow" in self._faults else "cancelled"}}
        except TurnOver as over:
            result = {"result": {"stopReason": over.stop_reason}}
        except RequestFailed as failed:
            result = {"error": failed.error}
        turn.kill_command()
        if "error" not in result:
            turn.session.turns.append(turn.stored)
            store.save(turn.session)
            if turn.usage is not None:
                result["result"]["usage"] = turn.usage
        self._turn = self._running = None
        await self._send({"id": request_id, **result})
        if turn.stored.text.startswith("end early"):
            await turn.say("This comes after its end.")


def _select(id: str, category: str, current: str, options: list[Json]) -> Json:
    return {
        "id": id, "name": id, "category": category, "type": "select", "currentValue": current, "options": options,
    }  # fmt: skip
