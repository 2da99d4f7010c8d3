"""Opens the session of a launch: a new one, or a resumed, forked or cut conversation."""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.agents.base import LaunchPlan
from farsteer.agents.droid.models import DroidModel, KnownModels
from farsteer.agents.droid.protocol import Message, Settings, TokenUsage
from farsteer.agents.droid.rpc import RpcClient, decode_result
from farsteer.agents.droid.settings import SettingsTracker
from farsteer.agents.droid.transcripts import first_prompt, in_order
from farsteer.core.droid import NO_ACTIVE_SESSION, Method
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, NotCapable, NotFound
from farsteer.core.launch import LaunchMode
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.wire import WireStruct

_MACHINE_ID = "farsteer"
_NO_ACTIVE_SESSION = NO_ACTIVE_SESSION.partition(".")[0]


class StoredDroidSession(WireStruct):
    messages: list[Message] = []
    title: str | None = None


class OpenedSession(WireStruct):
    """A session as Droid describes it when it is opened."""

    session_id: str | None = None
    """Droid leaves it out if the request named it."""
    session: StoredDroidSession = StoredDroidSession()
    settings: Settings = Settings()
    available_models: list[DroidModel] = []
    token_usage: TokenUsage | None = None
    inclusive_token_usage: TokenUsage | None = None
    pending_permissions: list[dict[str, Any]] | None = None
    pending_ask_user_requests: list[dict[str, Any]] | None = None

    @property
    def total_usage(self) -> TokenUsage | None:
        return self.inclusive_token_usage or self.token_usage


class NewDroidSession(WireStruct):
    """The result of a fork or a rewind."""

    new_session_id: str


class SessionStarter:
    def __init__(self, rpc: RpcClient, settings: SettingsTracker, plan: LaunchPlan) -> None:
        self._rpc = rpc
        self._settings = settings
        self._plan = plan
        self.created_id: str | None = None
        """The new session, if the plan asks for one that is neither resumed nor forked."""
        self._mcp_params: dict[str, Any] = {}
        if plan.mcp_servers:
            self._mcp_params = {"mcpServers": [_mcp_server(server) for server in plan.mcp_servers]}

    async def start(self) -> OpenedSession:
        """Open the session that the plan asks for; its id is set. Raises FarsteerError."""
        plan, native_id = self._plan, self._plan.decision.native_id
        if plan.fork_of is not None:
            source = await self._load(plan.fork_of)
            session = await self._cut(source, plan.cut_at) if plan.cut_at else None
            session = session or await self._fork(source)
        elif plan.decision.start is LaunchMode.RESUME and native_id is not None:
            session = await self._load(native_id)
            if plan.cut_at is not None:
                session = await self._cut(session, plan.cut_at) or session
        else:
            session = await self._initialize()
            self.created_id = session.session_id
        self._settings.update(session.settings)
        self._settings.models = KnownModels(session.available_models)
        if self.created_id is not None:
            self._settings.check(plan.model, plan.effort)
        await self._correct_settings()
        return session

    async def _initialize(self) -> OpenedSession:
        plan = self._plan
        params: dict[str, Any] = {"machineId": _MACHINE_ID, "cwd": plan.directory, **self._mcp_params}
        requested = self._settings.request(plan.permission_mode, plan.model, plan.effort)
        try:
            result = await self._call(Method.INITIALIZE_SESSION, params | requested)
        except BadRequest:
            # An older CLI with other names of modes. They are set once its settings have shown which.
            result = await self._call(Method.INITIALIZE_SESSION, params)
        session = decode_result(result, OpenedSession)
        if session.session_id is None:
            raise AgentError("Droid did not name the new session", code=ErrorCode.AGENT_PROTOCOL)
        return session

    async def _load(self, native_id: str) -> OpenedSession:
        params: dict[str, Any] = {"sessionId": native_id, **self._mcp_params}
        try:
            try:
                result = await self._call(Method.LOAD_SESSION, params)
            except AgentError as error:
                if _NO_ACTIVE_SESSION not in error.message:
                    raise
                # Some CLIs load a session only if another one is open.
                first = {"machineId": _MACHINE_ID, "cwd": self._plan.directory}
                await self._call(Method.INITIALIZE_SESSION, first)
                result = await self._call(Method.LOAD_SESSION, params)
        except NotFound:
            message = f"Droid has no conversation {native_id}"
            raise AgentError(message, code=ErrorCode.CONVERSATION_MISSING) from None
        return msgspec.structs.replace(decode_result(result, OpenedSession), session_id=native_id)

    async def _cut(self, session: OpenedSession, anchor: str) -> OpenedSession | None:
        """Copy the conversation up to and including `anchor` to a new session; None if no prompt follows it."""
        prompt = first_prompt(in_order(session.session.messages), anchor)
        if prompt is None:
            return None
        params: dict[str, Any] = {
            "sessionId": session.session_id, "messageId": prompt.id, "filesToRestore": [], "filesToDelete": [],
            "forkTitle": session.session.title or "Rewound",
        }  # fmt: skip
        result = await self._call(Method.EXECUTE_REWIND, params, optional=True)
        copy = await self._load(decode_result(result, NewDroidSession).new_session_id)
        if any(message.id == prompt.id for message in copy.session.messages):
            raise NotCapable("this version of Droid does not cut a conversation")
        return copy

    async def _fork(self, source: OpenedSession) -> OpenedSession:
        title = source.session.title
        result = await self._call(Method.FORK_SESSION, {"title": title} if title else {}, optional=True)
        return await self._load(decode_result(result, NewDroidSession).new_session_id)

    async def _correct_settings(self) -> None:
        """Set what differs from the plan. Fails if Droid keeps more autonomy than the plan allows."""
        missing = self._settings.request_missing()
        if not missing:
            return
        try:
            await self._call(Method.UPDATE_SESSION_SETTINGS, missing)
        except BadRequest:
            if self._settings.has_excess_autonomy:
                raise
        if self._settings.has_excess_autonomy:
            message = "Droid keeps more autonomy than was asked for"
            raise AgentError(message, code=ErrorCode.AGENT_START_FAILED)

    async def _call(self, method: Method, params: dict[str, Any], *, optional: bool = False) -> msgspec.Raw:
        return await self._rpc.call(method, params, self._plan.startup_timeout, optional=optional)


def _mcp_server(server: McpServer) -> dict[str, Any]:
    """Return the server as Droid takes it: without a type if it is a program, with a list of headers otherwise."""
    if server.type is McpTransport.STDIO:
        return {"name": server.name, "command": server.command, "args": [*server.args], "env": server.env}
    headers = [{"name": name, "value": value} for name, value in server.headers.items()]
    return {"type": server.type.value, "name": server.name, "url": server.url, "headers": headers}
