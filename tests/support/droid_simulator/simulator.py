"""The simulator's methods: sessions, settings, messages, and how it exits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from farsteer.core.droid import (
    AUTO,
    AUTONOMY_LEVELS,
    EFFORT_BY_NAME,
    METHOD_PREFIX,
    NO_ACTIVE_SESSION,
    SESSION_NOT_FOUND,
    SPEC,
    Method,
    WorkingState,
    level_from_name,
)
from farsteer.core.ids import new_id
from farsteer.core.lines import Line, Oversized
from farsteer.faces.droid import params, protocol
from farsteer.faces.droid.protocol import Message
from farsteer.jsonrpc.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from farsteer.jsonrpc.stdio import StdinReader
from tests.support.droid_simulator import store
from tests.support.droid_simulator.commands import perform
from tests.support.droid_simulator.output import SessionOutput
from tests.support.droid_simulator.store import Settings, Stored
from tests.support.droid_simulator.turn import Turn

_MODEL = params.ModelInfo.named("sim-1", (*EFFORT_BY_NAME,))

Handler = Callable[[Any, str], Awaitable[Any]]
"""Takes the parameters and the request's id; returns the result, or None if it was already sent."""


class InvalidParams(Exception):
    """The parameters are not accepted."""


class RequestFailed(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Simulator:
    def __init__(self, output: SessionOutput, drain: float) -> None:
        self._output = output
        self._profile = output.profile
        self._drain = drain
        self._turn: Turn | None = None
        self._running: asyncio.Task[None] | None = None
        self._queued: deque[tuple[str, str, str | None]] = deque()
        self._closed = asyncio.Event()
        self._terminated = asyncio.Event()
        self._drain_timeout = drain

    async def run(self, reader: StdinReader) -> None:
        reading = asyncio.create_task(self._read_lines(reader))
        ends = [asyncio.create_task(event.wait()) for event in (self._closed, self._terminated)]
        await asyncio.wait({reading, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if not self._closed.is_set():
            await self._drain_turn()
        for task in (reading, *ends):
            task.cancel()
        if self._turn is not None:
            self._turn.kill_command()

    def terminate(self) -> None:
        self._drain_timeout = min(self._drain, 5.0)
        if self._turn is not None:
            self._turn.kill_command()
        self._terminated.set()

    async def _drain_turn(self) -> None:
        """Report idle at once, and let the turn go on for a while all the same."""
        await self._output.change_state(WorkingState.IDLE)
        if self._running is None or self._turn is None:
            return
        self._turn.reason = "process_exit"
        hangs = "hang-at-eof" in self._output.faults and bool(self._turn.waiting)
        timeout = None if hangs or self._turn.ignores_interrupts else self._drain_timeout
        await asyncio.wait({self._running}, timeout=timeout)

    # -- lines

    async def _read_lines(self, reader: StdinReader) -> None:
        async for batch in reader.batches():
            for line in batch:
                await self._handle_line(line)

    async def _handle_line(self, line: Line) -> None:
        decoded = (
            protocol.InvalidLine(protocol.NOT_JSON)
            if isinstance(line, Oversized)
            else protocol.decode_line(line)
        )
        match decoded:
            case protocol.Request():
                await self._handle_request(decoded)
            case protocol.Response():
                self._handle_response(decoded)
            case protocol.InvalidLine():
                await self._send_error(None, PARSE_ERROR, decoded.message)
            case _:
                pass

    def _handle_response(self, response: protocol.Response) -> None:
        waiting = self._turn.waiting.get(response.id or "") if self._turn is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_result(response)

    async def _handle_request(self, request: protocol.Request) -> None:
        name = request.method.removeprefix(METHOD_PREFIX)
        method = self._methods().get(name)
        if method is None:
            await self._reject(request.id, METHOD_NOT_FOUND, f"Unknown method: {request.method}")
            return
        kind, handle = method
        try:
            given = msgspec.json.decode(b"" if request.params is msgspec.UNSET else request.params, type=kind)
            result = await handle(given, request.id)
        except (msgspec.DecodeError, InvalidParams) as error:
            reason = f"Invalid request for {request.method}: {error}"
            await self._reject(request.id, INVALID_PARAMS, reason)
        except RequestFailed as error:
            await self._send_error(request.id, error.code, str(error))
        else:
            if result is not None:
                await self._send_result(request.id, result)
            if name == Method.CLOSE_SESSION:
                self._closed.set()

    async def _reject(self, request_id: str, code: int, reason: str) -> None:
        if self._profile.dialect.errors_have_id and "id-null-errors" not in self._output.faults:
            await self._send_error(request_id, code, reason)
        else:
            await self._send_error(None, INVALID_REQUEST, protocol.INVALID_REQUEST_FORMAT)

    async def _send_result(self, request_id: str, result: Any) -> None:
        await self._output.write(self._output.encoder.result(request_id, result))

    async def _send_error(self, request_id: str | None, code: int, message: str) -> None:
        await self._output.write(self._output.encoder.error(request_id, code, message))

    def _methods(self) -> dict[str, tuple[type[Any], Handler]]:
        methods: dict[str, tuple[type[Any], Handler]] = {
            Method.INITIALIZE_SESSION: (params.InitializeParams, self._initialize),
            Method.LOAD_SESSION: (params.LoadParams, self._load),
            Method.ADD_USER_MESSAGE: (params.AddMessageParams, self._add_message),
            Method.UPDATE_SESSION_SETTINGS: (params.SettingsParams, self._update_settings),
            Method.INTERRUPT_SESSION: (params.NoParams, self._interrupt),
        }
        if self._profile.can_copy:
            methods[Method.FORK_SESSION] = dict, self._fork
            methods[Method.EXECUTE_REWIND] = dict, self._rewind
            methods[Method.GET_REWIND_INFO] = dict, self._rewind_info
        if self._profile.can_close:
            methods[Method.CLOSE_SESSION] = params.NoParams, self._close
            methods[Method.LIST_MODELS] = params.NoParams, self._list_models
            methods[Method.RENAME_SESSION] = params.RenameParams, self._rename
        return methods

    # -- sessions

    def _current(self) -> Stored:
        if self._output.session is None:
            raise RequestFailed(INTERNAL_ERROR, NO_ACTIVE_SESSION)
        return self._output.session

    async def _initialize(self, given: params.InitializeParams, request_id: str) -> dict[str, Any]:
        settings = self._changed_settings(Settings(), given)
        session = Stored(given.session_id or new_id(), given.cwd or ".", settings, [])
        store.create(session)
        self._output.session = session
        if self._profile.completes_turns:
            summary = {"total": 0, "connected": 0, "connecting": 0, "failed": 0, "disabled": 0}
            await self._output.notify(protocol.McpStatusChanged(servers=[], summary=summary))
            await self._output.notify_settings()
        if self._profile.has_levels:
            await self._output.notify_settings()
        return {"sessionId": session.id, **self._describe(session)}

    async def _load(self, given: params.LoadParams, request_id: str) -> dict[str, Any]:
        if self._profile.needs_session:
            self._current()
        current = self._output.session
        is_current = current is not None and current.id == given.session_id
        session = current if is_current else store.load(given.session_id)
        if session is None:
            raise RequestFailed(SESSION_NOT_FOUND, "Session not found")
        self._output.session = session
        turn = self._turn
        result: dict[str, Any] = {
            **self._describe(session), "isAgentLoopInProgress": turn is not None, "cwd": session.directory,
            "tokenUsage": session.settings.used,
        }  # fmt: skip
        pending = [*turn.pending.values()] if turn is not None else []
        if pending and self._profile.completes_turns:
            result["pendingPermissions"] = [one for one in pending if "toolUses" in one]
            result["pendingAskUserRequests"] = [one for one in pending if "questions" in one]
        return result

    def _describe(self, session: Stored) -> dict[str, Any]:
        return {
            "session": {"messages": session.messages, "title": session.settings.title or "New Session"},
            "settings": self._output.settings(),
            "availableModels": [_MODEL],
        }

    async def _fork(self, given: dict[str, Any], request_id: str) -> dict[str, Any]:
        return {"newSessionId": self._copy(self._current().messages)}

    async def _rewind(self, given: dict[str, Any], request_id: str) -> dict[str, Any]:
        messages = self._current().messages
        ids = [message.id for message in messages]
        if given.get("messageId") not in ids:
            raise RequestFailed(SESSION_NOT_FOUND, "Message not found")
        end = ids.index(given["messageId"])
        if end and ids[end - 1] == f"context-{ids[end]}":
            end -= 1
        counts = store.restore_files(given.get("filesToRestore", []), given.get("filesToDelete", []))
        return {"newSessionId": self._copy(messages[:end]), **counts}

    async def _rewind_info(self, given: dict[str, Any], request_id: str) -> dict[str, Any]:
        """As Droid does, of the current session, whichever one is named."""
        return store.rewind_info(self._current().id, str(given.get("messageId")))

    def _copy(self, messages: list[Message]) -> str:
        current = self._current()
        settings = msgspec.convert(msgspec.to_builtins(current.settings), Settings)
        copy = Stored(new_id(), current.directory, settings, [*messages], parent=current.id)
        store.create(copy)
        return copy.id

    async def _rename(self, given: params.RenameParams, request_id: str) -> dict[str, Any]:
        self._current().settings.title = given.title
        store.save(self._current())
        await self._output.notify(protocol.TitleUpdated(title=given.title, update_type="manual_rename"))
        return {"success": True}

    async def _list_models(self, given: params.NoParams, request_id: str) -> dict[str, Any]:
        return {"models": [_MODEL]}

    async def _close(self, given: params.NoParams, request_id: str) -> dict[str, Any] | None:
        if self._turn is not None and self._turn.ignores_interrupts:
            return None
        await self._stop_turn()
        return {}

    # -- settings

    async def _update_settings(self, given: params.SettingsParams, request_id: str) -> dict[str, Any]:
        session = self._current()
        session.settings = self._changed_settings(session.settings, given)
        if self._output.keeps_autonomy:
            self._output.raise_autonomy()
        store.save(session)
        if self._profile.completes_turns:
            await self._output.notify_settings()
        await self._output.notify_settings(request_id if self._profile.completes_turns else None)
        return {}

    def _changed_settings(self, settings: Settings, given: params.SettingsParams) -> Settings:
        """Newer versions ignore an unknown level; older ones refuse it."""
        if given.reasoning_effort is not None and given.reasoning_effort not in EFFORT_BY_NAME:
            raise InvalidParams(
                f"params.reasoningEffort: Invalid enum value, received '{given.reasoning_effort}'"
            )
        level, spec = settings.level, settings.spec
        if self._profile.has_levels:
            if given.autonomy_mode is not None:
                spec, level = given.autonomy_mode == SPEC, level_from_name(given.autonomy_mode) or level
            if given.interaction_mode in (AUTO, SPEC):
                spec = given.interaction_mode == SPEC
            level = given.autonomy_level if given.autonomy_level in AUTONOMY_LEVELS else level
        elif given.autonomy_level is not None:
            if given.autonomy_level in AUTONOMY_LEVELS:
                raise InvalidParams("autonomyLevel")
            spec, named = given.autonomy_level == SPEC, level_from_name(given.autonomy_level)
            if not spec and named is None:
                raise InvalidParams("autonomyLevel")
            level = named or "off"
        return msgspec.structs.replace(
            settings, model=given.model_id or settings.model, effort=given.reasoning_effort or settings.effort,
            level=level, spec=spec,
        )  # fmt: skip

    # -- turns

    async def _add_message(self, given: params.AddMessageParams, request_id: str) -> dict[str, Any] | None:
        if self._output.session is None and self._profile.answers_twice:
            await self._send_result(request_id, {})
        self._current()
        await self._send_result(request_id, {})
        if "double-response" in self._output.faults:
            await self._send_result(request_id, {})
        if given.text.strip() == "refuse":
            raise RequestFailed(INTERNAL_ERROR, "Something went wrong after all")
        self._queued.append((given.text, request_id, given.message_id))
        self._start_next_turn()
        return None

    def _start_next_turn(self) -> None:
        if self._turn is None and self._queued:
            turn = self._turn = Turn(self._output, *self._queued.popleft())
            self._running = asyncio.create_task(self._run_turn(turn))

    async def _run_turn(self, turn: Turn) -> None:
        await turn.run(perform)
        self._turn = self._running = None
        self._start_next_turn()

    async def _interrupt(self, given: params.NoParams, request_id: str) -> dict[str, Any] | None:
        self._current()
        if self._profile.completes_turns:
            await self._stop_turn()
            return {}
        await self._send_result(request_id, {})
        await self._stop_turn()
        return None

    async def _stop_turn(self) -> None:
        for text, request_id, _ in self._queued:
            if self._profile.completes_turns:
                await self._output.notify(protocol.QueuedMessageDiscarded(text=text, request_id=request_id))
        self._queued.clear()
        if self._running is not None and self._turn is not None and not self._turn.ignores_interrupts:
            running = self._running
            running.cancel()
            await asyncio.wait({running})
