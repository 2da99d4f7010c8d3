"""The simulator's requests: sessions, settings, messages, and how it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from farsteer.core.ids import new_id
from farsteer.core.lines import Line, Oversized
from farsteer.faces.droid import notes, params, wire
from farsteer.faces.droid.modes import LEVELS
from farsteer.faces.droid.notes import IDLE, Message
from farsteer.jsonrpc.stdio import StdinReader
from tests.support.droid_simulator import snapshots, store
from tests.support.droid_simulator.commands import perform
from tests.support.droid_simulator.store import Settings, Stored
from tests.support.droid_simulator.turn import Turn
from tests.support.droid_simulator.voice import Voice

_EFFORTS = ("none", "dynamic", "off", "minimal", "low", "medium", "high", "xhigh", "max")
_OLD_LEVELS = {"normal": "off", "auto-low": "low", "auto-medium": "medium", "auto-high": "high"}
_MODEL = params.Model.named("sim-1", [*_EFFORTS])


class Invalid(Exception):
    """The parameters are not accepted."""


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Simulator:
    def __init__(self, voice: Voice, drain: float) -> None:
        self._voice = voice
        self._profile = voice.profile
        self._drain = drain
        self._turn: Turn | None = None
        self._running: asyncio.Task[None] | None = None
        self._queued: deque[tuple[str, str, str | None]] = deque()
        self._closed = asyncio.Event()
        self._told_to_end = asyncio.Event()
        self._patience = drain

    async def run(self, reader: StdinReader) -> None:
        listening = asyncio.create_task(self._listen(reader))
        ends = [asyncio.create_task(event.wait()) for event in (self._closed, self._told_to_end)]
        await asyncio.wait({listening, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if not self._closed.is_set():
            await self._last_words()
        for task in (listening, *ends):
            task.cancel()
        if self._turn is not None:
            self._turn.kill()

    def terminate(self) -> None:
        self._patience = min(self._drain, 5.0)
        if self._turn is not None:
            self._turn.kill()
        self._told_to_end.set()

    async def _last_words(self) -> None:
        """Idle is said at once, and the turn goes on for a while all the same."""
        await self._voice.state(IDLE)
        if self._running is None or self._turn is None:
            return
        self._turn.reason = "process_exit"
        hangs = "hang-at-eof" in self._voice.bad and bool(self._turn.waiting)
        await asyncio.wait({self._running}, timeout=None if hangs or self._turn.deaf else self._patience)

    async def _listen(self, reader: StdinReader) -> None:
        async for batch in reader.batches():
            for line in batch:
                await self._take(line)

    async def _take(self, line: Line) -> None:
        read = wire.Unreadable(wire.NOT_JSON) if isinstance(line, Oversized) else wire.decode(line)
        match read:
            case wire.Request():
                await self._request(read)
            case wire.Answer():
                self._answer(read)
            case wire.Unreadable():
                await self._voice.write(self._voice.writing.error(None, wire.PARSE_ERROR, read.message))
            case _:
                pass

    def _answer(self, answer: wire.Answer) -> None:
        waiting = self._turn.waiting.get(answer.id or "") if self._turn is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def _request(self, request: wire.Request) -> None:
        name = request.method.removeprefix("droid.")
        method = self._methods().get(name)
        try:
            if method is None:
                raise Refused(wire.UNKNOWN_METHOD, f"Unknown method: {request.method}")
            kind, act = method
            given = msgspec.json.decode(b"" if request.params is msgspec.UNSET else request.params, type=kind)
            result = await act(given, request.id)
        except (msgspec.DecodeError, Invalid) as error:
            text = f"Invalid request for {request.method}: {error}"
            await self._misunderstood(request.id, wire.INVALID_PARAMS, text)
        except Refused as refused:
            if refused.code == wire.UNKNOWN_METHOD:
                await self._misunderstood(request.id, refused.code, str(refused))
            else:
                await self._voice.write(self._voice.writing.error(request.id, refused.code, str(refused)))
        else:
            if result is not None:
                await self._voice.write(self._voice.writing.result(request.id, result))
            if name == "close_session":
                self._closed.set()

    async def _misunderstood(self, request: str, code: int, text: str) -> None:
        writing = self._voice.writing
        if self._profile.dialect.errors_by_id and "id-null-errors" not in self._voice.bad:
            await self._voice.write(writing.error(request, code, text))
        else:
            await self._voice.write(writing.error(None, wire.INVALID_REQUEST, wire.NOT_UNDERSTOOD))

    def _methods(self) -> dict[str, tuple[type[Any], Callable[[Any, str], Awaitable[Any]]]]:
        known: dict[str, tuple[type[Any], Callable[[Any, str], Awaitable[Any]]]] = {
            "initialize_session": (params.Initialize, self._initialize),
            "load_session": (params.Load, self._load),
            "add_user_message": (params.AddMessage, self._add_message),
            "update_session_settings": (params.Dials, self._update),
            "interrupt_session": (params.Nothing, self._interrupt),
        }
        if self._profile.copies:
            known["fork_session"] = dict, self._fork
            known["execute_rewind"] = dict, self._rewind
            known["get_rewind_info"] = dict, self._rewind_info
        if self._profile.closes:
            known["close_session"] = params.Nothing, self._close
            known["list_models"] = params.Nothing, self._models
            known["rename_session"] = params.Rename, self._rename
        return known

    # -- sessions

    def _here(self) -> Stored:
        if self._voice.session is None:
            raise Refused(wire.INTERNAL, wire.NO_SESSION)
        return self._voice.session

    async def _initialize(self, given: params.Initialize, request: str) -> dict[str, Any]:
        settings = self._changed(Settings(), given)
        session = Stored(given.session_id or new_id(), given.cwd or ".", settings, [])
        store.begin(session)
        self._voice.session = session
        if self._profile.completes:
            status = {"total": 0, "connected": 0, "connecting": 0, "failed": 0, "disabled": 0}
            await self._voice.note(notes.McpStatus(servers=[], summary=status))
            await self._voice.settings()
        if self._profile.levels:
            await self._voice.settings()
        return {"sessionId": session.id, **self._described(session)}

    async def _load(self, given: params.Load, request: str) -> dict[str, Any]:
        if self._profile.needs_session:
            self._here()
        here = self._voice.session
        session = here if here is not None and here.id == given.session_id else store.load(given.session_id)
        if session is None:
            raise Refused(wire.NOT_FOUND, "Session not found")
        self._voice.session = session
        turn = self._turn
        result: dict[str, Any] = {
            **self._described(session), "isAgentLoopInProgress": turn is not None, "cwd": session.directory,
            "tokenUsage": session.settings.used,
        }  # fmt: skip
        asked = [*turn.pending.values()] if turn is not None else []
        if asked and self._profile.completes:
            result["pendingPermissions"] = [one for one in asked if "toolUses" in one]
            result["pendingAskUserRequests"] = [one for one in asked if "questions" in one]
        return result

    def _described(self, session: Stored) -> dict[str, Any]:
        return {
            "session": {"messages": session.messages, "title": session.settings.title or "New Session"},
            "settings": self._voice.settings_now(),
            "availableModels": [_MODEL],
        }

    async def _fork(self, given: dict[str, Any], request: str) -> dict[str, Any]:
        return {"newSessionId": self._copy(self._here().messages)}

    async def _rewind(self, given: dict[str, Any], request: str) -> dict[str, Any]:
        messages = self._here().messages
        ids = [message.id for message in messages]
        if given.get("messageId") not in ids:
            raise Refused(wire.NOT_FOUND, "Message not found")
        end = ids.index(given["messageId"])
        if end and ids[end - 1] == f"context-{ids[end]}":
            end -= 1
        done = snapshots.restore(given.get("filesToRestore", []), given.get("filesToDelete", []))
        return {"newSessionId": self._copy(messages[:end]), **done}

    async def _rewind_info(self, given: dict[str, Any], request: str) -> dict[str, Any]:
        """Of the session it is in, whichever one is named."""
        return snapshots.info(self._here().id, str(given.get("messageId")))

    def _copy(self, messages: list[Message]) -> str:
        here = self._here()
        copy = Stored(
            new_id(),
            here.directory,
            msgspec.convert(msgspec.to_builtins(here.settings), Settings),
            [*messages],
            parent=here.id,
        )
        store.begin(copy)
        return copy.id

    async def _rename(self, given: params.Rename, request: str) -> dict[str, Any]:
        self._here().settings.title = given.title
        store.save(self._here())
        await self._voice.note(notes.TitleUpdated(title=given.title, update_type="manual_rename"))
        return {"success": True}

    async def _models(self, given: params.Nothing, request: str) -> dict[str, Any]:
        return {"models": [_MODEL]}

    async def _close(self, given: params.Nothing, request: str) -> dict[str, Any] | None:
        if self._turn is not None and self._turn.deaf:
            return None
        await self._stop_turn()
        return {}

    # -- settings

    async def _update(self, given: params.Dials, request: str) -> dict[str, Any]:
        here = self._here()
        here.settings = self._changed(here.settings, given)
        store.save(here)
        if self._profile.completes:
            await self._voice.settings()
        await self._voice.settings(request if self._profile.completes else None)
        return {}

    def _changed(self, settings: Settings, given: params.Dials) -> Settings:
        """Newer versions ignore a level they do not know; older ones refuse it."""
        if given.reasoning_effort is not None and given.reasoning_effort not in _EFFORTS:
            raise Invalid(f"params.reasoningEffort: Invalid enum value, received '{given.reasoning_effort}'")
        level, spec = settings.level, settings.spec
        if self._profile.levels:
            if given.autonomy_mode is not None:
                spec, level = given.autonomy_mode == "spec", _OLD_LEVELS.get(given.autonomy_mode, level)
            if given.interaction_mode in ("auto", "spec"):
                spec = given.interaction_mode == "spec"
            level = given.autonomy_level if given.autonomy_level in LEVELS else level
        elif given.autonomy_level is not None:
            if given.autonomy_level not in (*_OLD_LEVELS, "spec"):
                raise Invalid("autonomyLevel")
            spec, level = given.autonomy_level == "spec", _OLD_LEVELS.get(given.autonomy_level, "off")
        return msgspec.structs.replace(
            settings, model=given.model_id or settings.model, effort=given.reasoning_effort or settings.effort,
            level=level, spec=spec,
        )  # fmt: skip

    # -- turns

    async def _add_message(self, given: params.AddMessage, request: str) -> dict[str, Any] | None:
        if self._voice.session is None and self._profile.answers_twice:
            await self._voice.write(self._voice.writing.result(request, {}))
        self._here()
        await self._voice.write(self._voice.writing.result(request, {}))
        if "double-response" in self._voice.bad:
            await self._voice.write(self._voice.writing.result(request, {}))
        if given.text.strip() == "refuse":
            raise Refused(wire.INTERNAL, "Something went wrong after all")
        self._queued.append((given.text, request, given.message_id))
        self._next()
        return None

    def _next(self) -> None:
        if self._turn is None and self._queued:
            turn = self._turn = Turn(self._voice, *self._queued.popleft())
            self._running = asyncio.create_task(self._play(turn))

    async def _play(self, turn: Turn) -> None:
        await turn.run(perform)
        self._turn = self._running = None
        self._next()

    async def _interrupt(self, given: params.Nothing, request: str) -> dict[str, Any] | None:
        self._here()
        if self._profile.completes:
            await self._stop_turn()
            return {}
        await self._voice.write(self._voice.writing.result(request, {}))
        await self._stop_turn()
        return None

    async def _stop_turn(self) -> None:
        for text, request, _ in self._queued:
            if self._profile.completes:
                await self._voice.note(notes.QueuedDiscarded(text=text, request_id=request))
        self._queued.clear()
        if self._running is not None and self._turn is not None and not self._turn.deaf:
            running = self._running
            running.cancel()
            await asyncio.wait({running})
