"""What a client can ask for: each method, its parameters, and what it does with the hub."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from farsteer.core.api import NewAttachment
from farsteer.core.errors import Conflict, NotCapable
from farsteer.core.modes import PermissionMode
from farsteer.faces.droid import modes, params, wire
from farsteer.faces.droid.conversation import Conversation, Out
from farsteer.faces.droid.copying import Copying
from farsteer.faces.droid.lobby import Lobby, Options
from farsteer.faces.droid.notes import IDLE, SettingsUpdated
from farsteer.faces.droid.repository import repository_of
from farsteer.faces.droid.teller import tokens


class NoSession(Exception):
    """The method needs a session and there is none."""


class Methods:
    def __init__(self, options: Options, out: Out, lobby: Lobby, leave: asyncio.Event) -> None:
        self._options = options
        self._out = out
        self._lobby = lobby
        self._leave = leave
        self._copying = Copying(lobby)
        self._current: Conversation | None = None
        self._levels = True
        """The client uses the newer words for autonomy, as far as it has said."""
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def _here(self) -> Conversation:
        if self._current is None:
            raise NoSession
        return self._current

    # -- sessions

    async def preload(self) -> None:
        """Be in the session that the command line names. Raises FarsteerError."""
        if self._options.session_id is not None:
            found = await self._lobby.find(self._options.session_id)
            (await self._enter(found, self._options.session_id, history=True)).begin()

    async def initialize(self, request: str, given: params.Initialize) -> None:
        mode = PermissionMode.BYPASS if given.skip_permissions_unsafe else modes.wanted_mode(given)
        effort = modes.wanted_effort(given)
        self._hear_words(given)
        session_id = await self._lobby.create(given, mode, effort)
        name = await self._lobby.name(session_id, given.session_id)
        here = await self._enter(session_id, name, history=False)
        await self._out.tell(SettingsUpdated(settings=here.teller.settings), name)
        await self._result(request, {"sessionId": name, **await self._described(here)})
        here.begin()

    async def load(self, request: str, given: params.Load) -> None:
        session_id = await self._lobby.find(given.session_id)
        here = await self._enter(session_id, given.session_id, history=True)
        asked = here.teller.pending()
        state, used = here.teller.state, tokens(here.teller.state.usage)
        permissions = [one.pending for one in asked if one.method == wire.REQUEST_PERMISSION]
        questions = [one.pending for one in asked if one.method == wire.ASK_USER]
        waiting = [item for item in state.queue if item.id != state.turn_item]
        result: dict[str, Any] = {
            **await self._described(here),
            "hasOlderMessages": False,
            "isAgentLoopInProgress": here.teller.working != IDLE,
            "workingState": here.teller.working,
            "cwd": here.directory,
            "tokenUsage": used,
            "inclusiveTokenUsage": used,
        }
        if permissions:
            result["pendingPermissions"] = permissions
        if questions:
            result["pendingAskUserRequests"] = questions
        if waiting:
            result["queuedMessages"] = [{"messageId": item.id, "text": item.text} for item in waiting]
        await self._result(request, result)
        if not self._options.dialect.lists_pending:
            await here.say(asked)
        here.begin()

    async def close_session(self, request: str, given: params.Nothing) -> None:
        here = self._here
        await here.conclude(0)
        await self._lobby.stop(here.id)
        await self._result(request, {})
        self._leave.set()

    async def rename(self, request: str, given: params.Rename) -> None:
        await self._lobby.hub.rename(self._here.id, given.title)
        await self._result(request, {"success": True})

    # -- copies

    async def fork(self, request: str, given: params.Fork) -> None:
        await self._result(request, {"newSessionId": await self._copying.fork(self._here, given.title)})

    async def rewind_info(self, request: str, given: params.AboutMessage) -> None:
        await self._result(request, await self._copying.info(self._here, given.message_id))

    async def rewind(self, request: str, given: params.Rewind) -> None:
        await self._result(request, await self._copying.rewind(self._here, given))

    async def compact(self, request: str, given: params.Nothing) -> None:
        raise NotCapable(f"{self._here.agent} cannot be told to compact its conversation")

    # -- turns

    async def add_message(self, request: str, given: params.AddMessage) -> None:
        here, attachments = self._here, _attachments(given)
        async with here.quiet:
            accepted = await self._lobby.hub.send(
                here.id, given.text, attachments=attachments, local_id=given.message_id
            )
            if not accepted.state.final:
                here.teller.sent(accepted.id, request)
            await self._result(request, {})

    async def interrupt(self, request: str, given: params.Nothing) -> None:
        here = self._here
        if here.teller.owed or here.teller.state.turn_id is not None:
            await here.interrupt()
        await self._result(request, {})

    async def update_settings(self, request: str, given: params.Dials) -> None:
        here, hub = self._here, self._lobby.hub
        mode = modes.wanted_mode(given, here.teller.state.permission_mode)
        effort = modes.wanted_effort(given)
        self._hear_words(given)
        here.teller.levels = self._levels
        if mode is not None:
            await hub.set_permission_mode(here.id, mode)
        if given.model_id is not None or effort is not None:
            model = given.model_id or here.teller.settings.model_id
            await hub.set_model(here.id, model, effort=effort)
        view = await hub.session(here.id)
        async with here.quiet:
            await here.say([*here.teller.adopt(view)])
            await self._result(request, {})

    async def answer(self, answer: wire.Answer) -> None:
        if self._current is not None:
            await self._current.answer(answer)

    # -- what there is

    async def list_models(self, request: str, given: params.Nothing) -> None:
        agent = self._current.agent if self._current is not None else None
        await self._result(request, {"models": await self._lobby.models(agent)})

    async def list_commands(self, request: str, given: params.Nothing) -> None:
        await self._result(request, {"commands": self._here.teller.state.commands})

    async def list_mcp_servers(self, request: str, given: params.Nothing) -> None:
        """An agent's own servers are its affair; a client can configure none here."""
        summary = dict.fromkeys(("total", "connected", "connecting", "failed", "disabled"), 0)
        await self._result(request, {"servers": [], "summary": summary})

    async def add_mcp_server(self, request: str, given: params.Nothing) -> None:
        raise NotCapable("MCP servers are configured where the agent is")

    async def list_nothing(self, request: str, given: params.Nothing, what: str) -> None:
        await self._result(request, {what: []})

    async def context_stats(self, request: str, given: params.Nothing) -> None:
        usage = self._here.teller.state.usage
        if usage.context_used is None or usage.context_size is None:
            raise Conflict("the agent has not said how full its context is")
        stats: dict[str, Any] = {
            "used": usage.context_used,
            "remaining": max(usage.context_size - usage.context_used, 0),
            "limit": usage.context_size,
            "accuracy": "exact",
            "updatedAt": time.time_ns() // 1_000_000,
        }
        await self._result(request, stats)

    # -- the end

    async def finish(self, patience: float) -> None:
        """Nobody is there to answer any more."""
        if self._current is not None:
            await self._current.conclude(patience)

    async def close(self) -> None:
        await self._leave_current()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        await self._lobby.close()

    # -- small things

    async def _enter(self, session_id: str, name: str, *, history: bool) -> Conversation:
        """Be in this session, and in no other any more. Raises NotFound, and then all stays as it was.

        What runs in the one before is ended first, and its end is told.
        """
        entered = await Conversation.open(
            self._lobby.hub, session_id, self._out, name=name, levels=self._levels, history=history
        )  # fmt: skip
        entered.teller.default_model = await self._lobby.default_model(entered.agent)
        if self._current is not None:
            await self._current.conclude(0)
        await self._leave_current()
        self._current = entered
        return entered

    async def _leave_current(self) -> None:
        left, self._current = self._current, None
        if left is not None:
            await left.close()
            task = asyncio.create_task(self._lobby.let_go(left.id))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _described(self, here: Conversation) -> dict[str, Any]:
        """What is said of a session when it is entered."""
        title = here.teller.state.title
        described: dict[str, Any] = {
            "hostId": (await self._lobby.machine()).id,
            "session": {"messages": here.messages, **({"title": title} if title else {})},
            "settings": here.teller.settings,
            "availableModels": await self._lobby.models(here.agent),
        }
        here.messages = []
        repository = repository_of(here.directory)
        return described if repository is None else {**described, "gitRepo": repository}

    def _hear_words(self, given: params.Dials) -> None:
        spoken = modes.speaks_levels(given)
        self._levels = self._levels if spoken is None else spoken

    async def _result(self, request: str, result: Any) -> None:
        await self._out.write(self._out.writing.result(request, result))


def _attachments(given: params.AddMessage) -> list[NewAttachment]:
    images = [
        NewAttachment(name=f"image-{number}", data=image.data, mime_type=image.media_type)
        for number, image in enumerate(given.images, 1)
    ]
    files = [
        NewAttachment(
            name=file.name,
            data=base64.b64encode(file.data.encode()).decode() if file.type == "text" else file.data,
            mime_type=file.media_type,
        )
        for file in given.files
    ]
    return [*images, *files]


class Method(msgspec.Struct, frozen=True):
    params: type[Any]
    perform: Callable[[Methods, str, Any], Awaitable[None]]


METHODS = {
    f"droid.{name}": Method(kind, perform)
    for name, kind, perform in (
        ("initialize_session", params.Initialize, Methods.initialize),
        ("load_session", params.Load, Methods.load),
        ("add_user_message", params.AddMessage, Methods.add_message),
        ("update_session_settings", params.Dials, Methods.update_settings),
        ("interrupt_session", params.Nothing, Methods.interrupt),
        ("close_session", params.Nothing, Methods.close_session),
        ("rename_session", params.Rename, Methods.rename),
        ("list_models", params.Nothing, Methods.list_models),
        ("list_commands", params.Nothing, Methods.list_commands),
        ("get_context_stats", params.Nothing, Methods.context_stats),
        ("fork_session", params.Fork, Methods.fork),
        ("get_rewind_info", params.AboutMessage, Methods.rewind_info),
        ("execute_rewind", params.Rewind, Methods.rewind),
        ("compact_session", params.Nothing, Methods.compact),
        ("list_mcp_servers", params.Nothing, Methods.list_mcp_servers),
        ("add_mcp_server", params.Nothing, Methods.add_mcp_server),
        ("list_mcp_tools", params.Nothing, partial(Methods.list_nothing, what="tools")),
        ("list_mcp_registry", params.Nothing, partial(Methods.list_nothing, what="servers")),
        ("list_tools", params.Nothing, partial(Methods.list_nothing, what="tools")),
        ("list_skills", params.Nothing, partial(Methods.list_nothing, what="skills")),
    )
}
