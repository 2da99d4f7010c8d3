"""The methods a client may call: the parameters of each, and what it does with the hub."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from farsteer.core import droid
from farsteer.core.api import NewAttachment
from farsteer.core.clock import now_ms
from farsteer.core.droid import Method, WorkingState
from farsteer.core.errors import Conflict, NotCapable
from farsteer.core.modes import PermissionMode
from farsteer.faces.droid import params
from farsteer.faces.droid.attached_session import AttachedSession, ProtocolWriter
from farsteer.faces.droid.notifications import SentMessage, token_usage
from farsteer.faces.droid.protocol import Dialect, Response, SettingsUpdated
from farsteer.faces.droid.sessions import ServerOptions, SessionCopier, SessionFinder, git_repository


class NoSession(Exception):
    """The method needs a session, and the client is in none."""


class Methods:
    """Handles the requests of one client, which is in at most one session at a time."""

    def __init__(
        self, options: ServerOptions, writer: ProtocolWriter, finder: SessionFinder, shutdown: asyncio.Event
    ) -> None:
        self._options = options
        self._writer = writer
        self._finder = finder
        self._shutdown = shutdown
        self._copier = SessionCopier(finder)
        self._attached: AttachedSession | None = None
        self._use_levels = True
        """The client uses the current names of autonomy levels, as far as it has shown."""
        self._releasing: set[asyncio.Task[None]] = set()

    @property
    def _current(self) -> AttachedSession:
        if self._attached is None:
            raise NoSession
        return self._attached

    # -- sessions

    async def enter_initial_session(self) -> None:
        """Enter the session that the command line names, if any. Raises FarsteerError."""
        if self._options.session_id is not None:
            found = await self._finder.find_initial(self._options.session_id)
            if found is not None:
                (await self._enter(found, self._options.session_id, history=True)).follow()

    async def initialize(self, request_id: str, given: params.InitializeParams) -> None:
        mode = PermissionMode.BYPASS if given.skip_permissions_unsafe else given.requested_mode()
        effort = given.requested_effort()
        self._note_level_names(given)
        session_id = await self._finder.create(given, mode, effort)
        name = self._finder.assign_name(session_id, given.session_id)
        session = await self._enter(session_id, name, history=False)
        await self._writer.send(SettingsUpdated(settings=session.notifications.settings), name)
        await self._writer.result(request_id, {"sessionId": name, **await self._describe(session)})
        session.follow()

    async def load(self, request_id: str, given: params.LoadParams) -> None:
        session_id = await self._finder.find(given.session_id)
        session = await self._enter(session_id, given.session_id, history=True)
        pending = session.notifications.request_pending()
        state, working_state = session.notifications.state, session.notifications.working_state
        usage = token_usage(state.usage)
        permissions = [one.pending for one in pending if one.method == droid.REQUEST_PERMISSION]
        questions = [one.pending for one in pending if one.method == droid.ASK_USER]
        queued = await self._finder.hub.queue(session_id) if state.queue else []
        result: dict[str, Any] = {
            **await self._describe(session),
            "hasOlderMessages": False,
            "isAgentLoopInProgress": working_state is not WorkingState.IDLE,
            "workingState": working_state,
            "cwd": session.directory,
            "tokenUsage": usage,
            "inclusiveTokenUsage": usage,
        }
        if permissions:
            result["pendingPermissions"] = permissions
        if questions:
            result["pendingAskUserRequests"] = questions
        if queued:
            result["queuedMessages"] = [
                {"messageId": item.id, "text": item.text} for item in queued if item.id != state.turn_item
            ]
        await self._writer.result(request_id, result)
        if not self._options.dialect.lists_pending:
            await session.send(pending)
        session.follow()

    async def close_session(self, request_id: str, given: params.NoParams) -> None:
        session = self._current
        await session.finish(0)
        await self._finder.stop(session.id)
        await self._writer.result(request_id, {})
        self._shutdown.set()

    async def rename(self, request_id: str, given: params.RenameParams) -> None:
        await self._finder.hub.rename(self._current.id, given.title)
        await self._writer.result(request_id, {"success": True})

    # -- copies

    async def fork(self, request_id: str, given: params.ForkParams) -> None:
        fork = await self._finder.fork(self._current.id, title=given.title)
        await self._writer.result(request_id, {"newSessionId": fork})

    async def rewind_info(self, request_id: str, given: params.RewindInfoParams) -> None:
        session = self._current
        info = await self._copier.rewind_info(session.id, session.agent, given.message_id)
        await self._writer.result(request_id, info)

    async def rewind(self, request_id: str, given: params.RewindParams) -> None:
        await self._writer.result(request_id, await self._copier.rewind(self._current.id, given))

    async def compact(self, request_id: str, given: params.NoParams) -> None:
        raise NotCapable(f"{self._current.agent} cannot compact its conversation on request")

    # -- turns

    async def add_message(self, request_id: str, given: params.AddMessageParams) -> None:
        session, attachments = self._current, _attachments(given)
        async with session.write_lock:
            accepted = await self._finder.hub.send(
                session.id, given.text, attachments=attachments, local_id=given.message_id
            )
            if not accepted.state.final:
                message = SentMessage(request_id, given.text, accepted.local_id)
                session.notifications.message_accepted(accepted.id, message)
            await self._writer.result(request_id, {})

    async def interrupt(self, request_id: str, given: params.NoParams) -> None:
        session = self._current
        if session.notifications.unfinished_items or session.notifications.state.turn_id is not None:
            await session.interrupt()
        await self._writer.result(request_id, {})

    async def update_settings(self, request_id: str, given: params.SettingsParams) -> None:
        session, hub = self._current, self._finder.hub
        notifications = session.notifications
        mode = given.requested_mode(notifications.state.permission_mode)
        effort = given.requested_effort()
        self._note_level_names(given)
        notifications.use_levels = self._use_levels
        if mode is not None:
            await hub.set_permission_mode(session.id, mode)
        if given.model_id is not None or effort is not None:
            model = given.model_id or notifications.settings.model_id
            await hub.set_model(session.id, model, effort=effort)
        view = await hub.session(session.id)
        async with session.write_lock:
            await session.send([*notifications.apply_settings(view)])
            await self._writer.result(request_id, {})

    async def handle_response(self, response: Response) -> None:
        if self._attached is not None:
            await self._attached.handle_response(response)

    # -- lists

    async def list_models(self, request_id: str, given: params.NoParams) -> None:
        agent = self._attached.agent if self._attached is not None else None
        await self._writer.result(request_id, {"models": await self._finder.models(agent)})

    async def list_commands(self, request_id: str, given: params.NoParams) -> None:
        await self._writer.result(request_id, {"commands": self._current.notifications.state.commands})

    async def list_mcp_servers(self, request_id: str, given: params.NoParams) -> None:
        """Always empty: MCP servers are configured in the agent, not here."""
        summary = dict.fromkeys(("total", "connected", "connecting", "failed", "disabled"), 0)
        await self._writer.result(request_id, {"servers": [], "summary": summary})

    async def add_mcp_server(self, request_id: str, given: params.NoParams) -> None:
        raise NotCapable("MCP servers are configured in the agent")

    async def list_nothing(self, request_id: str, given: params.NoParams, key: str) -> None:
        await self._writer.result(request_id, {key: []})

    async def context_stats(self, request_id: str, given: params.NoParams) -> None:
        usage = self._current.notifications.state.usage
        if usage.context_used is None or usage.context_size is None:
            raise Conflict("the agent has not reported how full its context is")
        stats: dict[str, Any] = {
            "used": usage.context_used,
            "remaining": max(usage.context_size - usage.context_used, 0),
            "limit": usage.context_size,
            "accuracy": "exact",
            "updatedAt": now_ms(),
        }
        await self._writer.result(request_id, stats)

    # -- shutdown

    async def finish(self, timeout: float) -> None:
        """Let running turns come to their end, as `AttachedSession.finish` does."""
        if self._attached is not None:
            await self._attached.finish(timeout)

    async def close(self) -> None:
        await self._leave()
        await asyncio.gather(*self._releasing, return_exceptions=True)
        await self._finder.close()

    # -- helpers

    async def _enter(self, session_id: str, name: str, *, history: bool) -> AttachedSession:
        """Attach to a session instead of the current one, whose turn is ended first.

        Raises NotFound; the client then stays in its session.
        """
        session = await AttachedSession.open(
            self._finder.hub, session_id, self._writer, name=name, use_levels=self._use_levels, history=history
        )  # fmt: skip
        session.notifications.default_model = await self._finder.default_model(session.agent)
        if self._attached is not None:
            await self._attached.finish(0)
        await self._leave()
        self._attached = session
        return session

    async def _leave(self) -> None:
        session, self._attached = self._attached, None
        if session is not None:
            await session.close()
            task = asyncio.create_task(self._finder.release(session.id))
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)

    async def _describe(self, session: AttachedSession) -> dict[str, Any]:
        """Return the fields of a session that `initialize_session` and `load_session` have in common."""
        title = session.notifications.state.title
        described: dict[str, Any] = {
            "hostId": (await self._finder.machine()).id,
            "session": {"messages": session.messages, **({"title": title} if title else {})},
            "settings": session.notifications.settings,
            "availableModels": await self._finder.models(session.agent),
        }
        session.messages = []
        repository = git_repository(session.directory)
        return described if repository is None else {**described, "gitRepo": repository}

    def _note_level_names(self, given: params.SettingsParams) -> None:
        """Remember which names of autonomy levels the client uses, so that it is answered with the same."""
        uses_levels = given.uses_levels()
        self._use_levels = self._use_levels if uses_levels is None else uses_levels


def _attachments(given: params.AddMessageParams) -> list[NewAttachment]:
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


class MethodEntry(msgspec.Struct, frozen=True):
    params: type[Any]
    handle: Callable[[Methods, str, Any], Awaitable[None]]

    def params_of(self, dialect: Dialect) -> type[Any]:
        """Return the type of the parameters as this version of Droid checks them."""
        strict = self.params is params.SettingsParams and dialect.refuses_unknown_settings
        return params.StrictSettingsParams if strict else self.params


METHODS = {
    f"{droid.METHOD_PREFIX}{name}": MethodEntry(params_type, handle)
    for name, params_type, handle in (
        (Method.INITIALIZE_SESSION, params.InitializeParams, Methods.initialize),
        (Method.LOAD_SESSION, params.LoadParams, Methods.load),
        (Method.ADD_USER_MESSAGE, params.AddMessageParams, Methods.add_message),
        (Method.UPDATE_SESSION_SETTINGS, params.SettingsParams, Methods.update_settings),
        (Method.INTERRUPT_SESSION, params.NoParams, Methods.interrupt),
        (Method.CLOSE_SESSION, params.NoParams, Methods.close_session),
        (Method.RENAME_SESSION, params.RenameParams, Methods.rename),
        (Method.LIST_MODELS, params.NoParams, Methods.list_models),
        (Method.LIST_COMMANDS, params.NoParams, Methods.list_commands),
        (Method.GET_CONTEXT_STATS, params.NoParams, Methods.context_stats),
        (Method.FORK_SESSION, params.ForkParams, Methods.fork),
        (Method.GET_REWIND_INFO, params.RewindInfoParams, Methods.rewind_info),
        (Method.EXECUTE_REWIND, params.RewindParams, Methods.rewind),
        (Method.COMPACT_SESSION, params.NoParams, Methods.compact),
        (Method.LIST_MCP_SERVERS, params.NoParams, Methods.list_mcp_servers),
        (Method.ADD_MCP_SERVER, params.NoParams, Methods.add_mcp_server),
        (Method.LIST_MCP_TOOLS, params.NoParams, partial(Methods.list_nothing, key="tools")),
        (Method.LIST_MCP_REGISTRY, params.NoParams, partial(Methods.list_nothing, key="servers")),
        (Method.LIST_TOOLS, params.NoParams, partial(Methods.list_nothing, key="tools")),
        (Method.LIST_SKILLS, params.NoParams, partial(Methods.list_nothing, key="skills")),
    )
}
