"""The agent's stored sessions, read through a process of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from farsteer.agents.acp import protocol
from farsteer.agents.acp.protocol import Request, SessionUpdate, encode_error
from farsteer.agents.acp.session_start import SessionStarter, error_of
from farsteer.agents.acp.settings import SessionSettings
from farsteer.agents.acp.tool_calls import content_text
from farsteer.agents.acp.translator import Translator
from farsteer.agents.base import EventEmitted
from farsteer.agents.catalog.definition import AgentDefinition
from farsteer.agents.process import AgentProcess, ProcessExit
from farsteer.agents.rpc import Response, RpcClient
from farsteer.agents.turns import TurnOutput
from farsteer.core.errors import AgentError, ErrorCode, NotCapable
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Plan,
    SessionEvent,
    ToolCall,
    ToolCallUpdate,
    TurnEndReason,
    UserMessage,
)
from farsteer.core.lines import Line, Oversized
from farsteer.core.modes import PermissionMode
from farsteer.core.session import StoredConversation
from farsteer.core.text import clean_line
from farsteer.jsonrpc.errors import METHOD_NOT_FOUND

_TIMEOUT = 60.0
_TITLE_CHARS = 200
_MAX_PAGES = 1000
_STORED = (UserMessage, AgentMessage, AgentThought, ToolCall, ToolCallUpdate, Plan)


class StoredSessions:
    """A process for a few requests. Use it as an async context manager."""

    def __init__(
        self, name: str, argv: Sequence[str], definition: AgentDefinition, environment: Mapping[str, str]
    ) -> None:
        self._name = name
        self._argv = argv
        self._definition = definition
        self._environment = environment
        self._rpc = RpcClient(
            definition.title, self._write, protocol.encode_request, error_of(definition.title)
        )
        self._starter = SessionStarter(self._rpc, definition, _TIMEOUT, serves_files=False)
        self._replay: Replay | None = None

    async def __aenter__(self) -> Self:
        self._process = AgentProcess.start(
            self._argv, cwd=self._environment.get("HOME", "/"), environment=self._environment,
            on_lines=self._handle_lines, on_exit=self._handle_exit,
        )  # fmt: skip
        try:
            await self._starter.initialize()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def list(self, directory: str | None, limit: int) -> list[StoredConversation]:
        """Return up to `limit` sessions, newest first."""
        found: dict[str, StoredConversation] = {}
        params: dict[str, Any] = {} if directory is None else {"cwd": directory}
        for _ in range(_MAX_PAGES):
            page = await self._rpc.ask("session/list", params, _TIMEOUT, protocol.ListedSessions)
            for session in page.sessions:
                if directory is None or session.cwd == directory:
                    found.setdefault(session.session_id, self._conversation(session))
            if page.next_cursor is None or not page.sessions:
                break
            params["cursor"] = page.next_cursor
        # The protocol does not say in which order they come.
        return sorted(found.values(), key=lambda one: one.updated_at, reverse=True)[:limit]

    async def read(self, session_id: str) -> tuple[StoredConversation, list[SessionEvent]]:
        """Return a session as events. Raises AgentError `conversation_missing`."""
        known = next((one for one in await self.list(None, 1_000_000) if one.native_id == session_id), None)
        if known is None:
            raise AgentError(
                f"{self._definition.title} has no session {session_id}", code=ErrorCode.CONVERSATION_MISSING
            )
        replay = self._replay = Replay(session_id, self._definition)
        await self._starter.load(session_id, {"cwd": known.directory, "mcpServers": []})
        if self._starter.agent.agent_capabilities.has("close"):
            await self._rpc.call("session/close", {"sessionId": session_id}, _TIMEOUT)
        events = replay.events()
        messages = sum(isinstance(event, UserMessage | AgentMessage) for event in events)
        return StoredConversation(
            native_id=session_id, agent=self._name, directory=known.directory, updated_at=known.updated_at,
            title=known.title, messages=messages,
        ), events  # fmt: skip

    async def delete(self, session_id: str) -> None:
        if not self._starter.agent.agent_capabilities.has("delete"):
            return
        try:
            await self._rpc.call("session/delete", {"sessionId": session_id}, _TIMEOUT)
        except NotCapable:
            return
        except AgentError as error:
            if error.code is not ErrorCode.CONVERSATION_MISSING:
                raise

    def _conversation(self, session: protocol.ListedSession) -> StoredConversation:
        return StoredConversation(
            native_id=session.session_id, agent=self._name, directory=session.cwd,
            updated_at=_milliseconds(session.updated_at), title=clean_line(session.title or "", _TITLE_CHARS) or None,
        )  # fmt: skip

    async def _handle_lines(self, lines: list[Line]) -> None:
        for line in lines:
            if isinstance(line, Oversized):
                text = f"{self._definition.title} wrote a line of {line.size} bytes ({line.reason})"
                self._rpc.fail(AgentError(text, code=ErrorCode.TOO_LARGE))
                continue
            match protocol.decode_line(line):
                case Response() as response:
                    self._rpc.handle_response(response)
                case SessionUpdate() as update:
                    if self._replay is not None:
                        self._replay.add(update)
                case Request() as request:
                    await self._write(encode_error(request.id, METHOD_NOT_FOUND, "nothing is done here"))
                case _:
                    pass

    async def _handle_exit(self, ended: ProcessExit) -> None:
        text = f"{self._definition.title} ended: {ended.reason}"
        self._rpc.close(AgentError(text, code=ErrorCode.AGENT_DIED, stderr=ended.stderr))

    async def _write(self, line: bytes) -> None:
        await self._process.write(line)

    async def _stop(self) -> None:
        await asyncio.shield(self._process.stop())
        await self._process.wait()


class Replay:
    """The updates of a loaded session as events. Ids follow from the place in the session: agents name few of them."""

    def __init__(self, session_id: str, definition: AgentDefinition) -> None:
        self._session_id = session_id
        self._output = TurnOutput()
        settings = SessionSettings(definition.title, definition.modes, PermissionMode.DEFAULT, None, None)
        self._translator = Translator(self._output, settings, lambda _: "")
        self._events: list[SessionEvent] = []
        self._user: list[str] = []
        self._user_id: str | None = None

    def add(self, message: SessionUpdate) -> None:
        if message.session_id != self._session_id:
            return
        update = message.update
        if isinstance(update, protocol.UserChunk):
            if update.message_id != self._user_id:
                self._end_user()
            self._translator.finish_message()
            self._take()
            self._user_id = update.message_id
            self._user.append(content_text(update.content))
        else:
            self._end_user()
            self._translator.handle(update)
            self._take()

    def events(self) -> list[SessionEvent]:
        self._end_user()
        self._translator.end_turn(TurnEndReason.END_TURN)
        self._take()
        return self._events

    def _end_user(self) -> None:
        if self._user:
            text = "".join(self._user)
            self._user = []
            self._events.append(UserMessage(item_id=self._id(), text=text))
        self._user_id = None

    def _take(self) -> None:
        for output in self._output.drain():
            if not isinstance(output, EventEmitted) or not isinstance(output.event, _STORED):
                continue
            event = output.event
            if isinstance(event, AgentMessage):
                event = AgentMessage(message_id=self._id(), text=event.text)
            elif isinstance(event, AgentThought):
                event = AgentThought(message_id=self._id(), text=event.text)
            self._events.append(event)

    def _id(self) -> str:
        return f"{self._session_id}:{len(self._events) + 1}"


def _milliseconds(time: str | None) -> int:
    try:
        return int(datetime.fromisoformat(time or "").timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
