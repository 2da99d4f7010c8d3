"""How a conversation is opened: begun, resumed, forked or cut, in a process that has none yet."""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.agents.base import LaunchPlan
from farsteer.agents.droid.history import first_prompt, in_order
from farsteer.agents.droid.notes import Message, Settings, Tokens
from farsteer.agents.droid.rpc import Rpc, read
from farsteer.agents.droid.settings import Dial
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, NotCapable, NotFound
from farsteer.core.launch import LaunchMode
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.wire import WireStruct

MACHINE = "farsteer"
_NO_SESSION = "No active session"


class Stored(WireStruct):
    messages: list[Message] = []
    title: str | None = None


class Session(WireStruct):
    """A conversation as Droid describes it when it is opened."""

    session_id: str | None = None
    """Absent where it was named in the request."""
    session: Stored = Stored()
    settings: Settings = Settings()
    available_models: list[dict[str, Any]] = []
    token_usage: Tokens | None = None
    inclusive_token_usage: Tokens | None = None
    pending_permissions: list[dict[str, Any]] | None = None
    pending_ask_user_requests: list[dict[str, Any]] | None = None

    @property
    def used(self) -> Tokens | None:
        return self.inclusive_token_usage or self.token_usage


class Opening:
    def __init__(self, rpc: Rpc, dial: Dial, directory: str, timeout: float) -> None:
        self._rpc = rpc
        self._dial = dial
        self._directory = directory
        self._timeout = timeout
        self._servers: dict[str, Any] = {}

    async def perform(self, plan: LaunchPlan) -> Session:
        """The opened conversation, with its id. Raises FarsteerError."""
        native_id = plan.decision.native_id
        if plan.mcp_servers:
            self._servers = {"mcpServers": [_server(server) for server in plan.mcp_servers]}
        if plan.fork_of is not None:
            source = await self.load(plan.fork_of)
            session = await self.cut(source, plan.cut_at) if plan.cut_at else None
            session = session or await self._fork(source)
        elif plan.decision.start is LaunchMode.RESUME and native_id is not None:
            session = await self.load(native_id)
            if plan.cut_at is not None:
                session = await self.cut(session, plan.cut_at) or session
        else:
            session = await self._initialize(plan)
        self.read(session)
        await self._adjust()
        return session

    def read(self, session: Session) -> None:
        self._dial.read(session.settings)
        self._dial.models = {str(model.get("id")): model for model in session.available_models}

    async def load(self, native_id: str) -> Session:
        """Needs nothing before it, except on CLIs that want any session to be there first."""
        params: dict[str, Any] = {"sessionId": native_id, **self._servers}
        try:
            try:
                answer = await self._call("load_session", params)
            except AgentError as error:
                if _NO_SESSION not in error.message:
                    raise
                await self._call("initialize_session", {"machineId": MACHINE, "cwd": self._directory})
                answer = await self._call("load_session", params)
        except NotFound:
            message = f"Droid has no conversation {native_id}"
            raise AgentError(message, code=ErrorCode.CONVERSATION_MISSING) from None
        return msgspec.structs.replace(_session(answer), session_id=native_id)

    async def cut(self, session: Session, anchor: str) -> Session | None:
        """The conversation up to and including `anchor`, under a new id. None: nothing comes after it."""
        later = first_prompt(in_order(session.session.messages), anchor)
        if later is None:
            return None
        params: dict[str, Any] = {
            "sessionId": session.session_id, "messageId": later.id, "filesToRestore": [], "filesToDelete": [],
            "forkTitle": session.session.title or "Rewound",
        }  # fmt: skip
        moved = _moved(await self._call("execute_rewind", params, optional=True))
        rest = await self.load(moved)
        if any(message.id == later.id for message in rest.session.messages):
            raise NotCapable("this version of Droid does not cut a conversation")
        return rest

    async def _adjust(self) -> None:
        """Make the settings what the plan wants; a Droid that asks less than it should is not started."""
        missing = self._dial.missing()
        if not missing:
            return
        try:
            await self._call("update_session_settings", missing)
        except BadRequest:
            if self._dial.too_loose:
                raise
        if self._dial.too_loose:
            raise AgentError(
                "Droid keeps more autonomy than was asked for", code=ErrorCode.AGENT_START_FAILED
            )

    async def _initialize(self, plan: LaunchPlan) -> Session:
        params: dict[str, Any] = {"machineId": MACHINE, "cwd": self._directory, **self._servers}
        wanted = self._dial.want(plan.permission_mode, plan.model, plan.effort)
        try:
            answer = await self._call("initialize_session", params | wanted)
        except BadRequest:
            # An older CLI, with other words for the modes: they are set when its own have been seen.
            answer = await self._call("initialize_session", params)
        session = _session(answer)
        if session.session_id is None:
            raise AgentError("Droid began a session without a name", code=ErrorCode.AGENT_PROTOCOL)
        return session

    async def _fork(self, source: Session) -> Session:
        title = source.session.title
        params = {"title": title} if title else {}
        return await self.load(_moved(await self._call("fork_session", params, optional=True)))

    async def _call(self, method: str, params: dict[str, Any], *, optional: bool = False) -> msgspec.Raw:
        return await self._rpc.call(method, params, self._timeout, optional=optional)


def _server(server: McpServer) -> dict[str, Any]:
    """As Droid wants it: programs have no type, and headers are a list."""
    if server.type is McpTransport.STDIO:
        return {"name": server.name, "command": server.command, "args": [*server.args], "env": server.env}
    headers = [{"name": name, "value": value} for name, value in server.headers.items()]
    return {"type": server.type.value, "name": server.name, "url": server.url, "headers": headers}


class _Moved(WireStruct):
    new_session_id: str


def _moved(answer: msgspec.Raw) -> str:
    return read(answer, _Moved).new_session_id


def _session(answer: msgspec.Raw) -> Session:
    return read(answer, Session)
