"""ACP's methods, for one client: an editor that sees every session of its namespace, any agent, any machine."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from farsteer import __version__
from farsteer.client.access import absolute
from farsteer.client.machines import choose_machine
from farsteer.client.steering import Steering
from farsteer.core.api import CreateSession, MachineView, SessionView
from farsteer.core.errors import BadRequest, Conflict, FarsteerError, NotCapable, NotFound, Unauthorized
from farsteer.core.ids import is_uuid
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.faces.acp import options
from farsteer.faces.acp.asking import Desk
from farsteer.faces.acp.attached import Attached
from farsteer.faces.acp.content import message
from farsteer.faces.house import House
from farsteer.rpc.errors import AUTH_REQUIRED, INVALID_PARAMS, RpcError, unknown_method
from farsteer.rpc.messages import fields
from farsteer.rpc.peer import Peer

PROTOCOL = 1
LOGIN = "farsteer-login"
SOURCE = "acp"
_LISTED = 100
_AFTER_ANSWER = 0.005
_SOURCE_CHARS = 100


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was said on the command line, or by the road to this face."""

    agent: str | None = None
    machine: str | None = None
    session_id: str | None = None
    """The session that `session/new` gives, instead of a new one."""


class AcpAgent:
    """A `Handler` of a peer; `attach` gives it the peer it speaks through."""

    def __init__(self, given: Options, house: House) -> None:
        self._given = given
        self._house = house
        self._sessions: dict[str, Attached] = {}
        """By the client's name for them."""
        self._forms = False
        self._methods: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "logout": self._logout,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/fork": self._fork,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_model": self._set_model,
            "session/set_config_option": self._set_config_option,
        }

    def attach(self, peer: Peer) -> None:
        self._peer = peer

    async def request(self, method: str, params: Any) -> Any:
        known = self._methods.get(method)
        if known is None:
            raise unknown_method(method)
        given = {} if params is None else fields(params)
        if given is None:
            raise RpcError(INVALID_PARAMS, f"{method} takes an object")
        try:
            return await known(given)
        except Unauthorized as error:
            raise RpcError(AUTH_REQUIRED, error.message, {"code": error.code.value}) from None

    async def notification(self, method: str, params: Any) -> None:
        if method == "session/cancel":
            attached = self._sessions.get(str((fields(params) or {}).get("sessionId")))
            if attached is not None:
                await attached.cancel()

    async def leave(self) -> None:
        """The client is gone; what runs goes on."""
        for attached in [*self._sessions.values()]:
            await attached.leave()
        self._sessions.clear()

    # -- the connection

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        client = fields(params.get("clientCapabilities")) or {}
        elicitation = fields(client.get("elicitation")) or {}
        self._forms = fields(elicitation.get("form")) is not None
        # After the answer, for opening a hub inside this process takes longer than an editor should wait for it.
        asyncio.get_running_loop().call_later(_AFTER_ANSWER, self._house.begin_once)
        return {
            "protocolVersion": PROTOCOL,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}},
                "auth": {"logout": {}},
            },
            "agentInfo": {"name": "farsteer", "title": "Farsteer", "version": __version__},
            "authMethods": [
                {
                    "id": LOGIN,
                    "name": "Log in to a hub",
                    "description": "Asks for the hub's address and its access token",
                    "type": "terminal",
                    "args": ["login"],
                }
            ],
        }

    async def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("methodId") != LOGIN:
            raise BadRequest(f"there is no way to log in named {params.get('methodId')!r}", methods=[LOGIN])
        await (await self._hub()).machines()
        return {}

    async def _logout(self, params: dict[str, Any]) -> dict[str, Any]:
        """This connection forgets its sessions; `farsteer logout` forgets the token."""
        await self.leave()
        return {}

    # -- sessions

    async def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._given.session_id is not None:
            return await self._enter(self._given.session_id, replay=False, late=True)
        session_id = await self._create(_directory(params), self._given.agent, params)
        return await self._enter(session_id, replay=False)

    async def _create(
        self, directory: str, agent: str | None, params: dict[str, Any], name: str | None = None
    ) -> str:
        hub = await self._hub()
        machine = choose_machine(await hub.machines(), self._given.machine)
        _refuse_extras(params, agent)
        source = SOURCE if name is None else f"{SOURCE}:{name}"
        request = CreateSession(
            machine_id=machine.id, directory=absolute(directory), agent=agent, source=source[:_SOURCE_CHARS]
        )
        return (await hub.create_session(request)).session_id

    async def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        _refuse_extras(params, None)
        result = await self._enter(_session_id(params), replay=True)
        del result["sessionId"]
        return result

    async def _resume(self, params: dict[str, Any]) -> dict[str, Any]:
        _refuse_extras(params, None)
        result = await self._enter(_session_id(params), replay=False)
        del result["sessionId"]
        return result

    async def _enter(
        self, name: str, *, replay: bool, late: bool = False, session_id: str | None = None
    ) -> dict[str, Any]:
        """Be in a session. `late`: the past is told after the answer, because before it nobody listens."""
        hub = await self._hub()
        found = session_id or await self._find(hub, name)
        before = self._sessions.pop(name, None)
        if before is not None:
            await before.leave()
        attached = Attached(self._peer, hub, Desk(self._peer, forms=self._forms), found, name)
        try:
            view = await attached.enter(replay=replay, late=late)
            result = await self._described(hub, name, view)
        except BaseException:
            await attached.leave()
            raise
        self._sessions[name] = attached
        # Nothing else runs between this and the answer, so the first update comes after it.
        attached.begin()
        return result

    async def _described(self, hub: Steering, name: str, view: SessionView) -> dict[str, Any]:
        machine = await _machine(hub, view)
        agents = {} if machine is None else {info.name: info for info in machine.agents}
        return {
            "sessionId": name,
            "modes": options.modes(view),
            "models": options.models(view, agents.get(view.agent)),
            "configOptions": options.config_options(view, machine),
        }

    async def _find(self, hub: Steering, name: str) -> str:
        """The id of what the client calls so. Raises NotFound."""
        attached = self._sessions.get(name)
        if attached is not None:
            return attached.id
        if is_uuid(name):
            with suppress(NotFound):
                return (await hub.session(name)).id
        async for view in hub.sessions():
            if view.source == f"{SOURCE}:{name}"[:_SOURCE_CHARS]:
                return view.id
        raise NotFound("no such session", sessionId=name)

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        hub = await self._hub()
        cwd, cursor = params.get("cwd"), params.get("cursor")
        try:
            first = 0 if cursor is None else int(str(cursor))
        except ValueError:
            raise BadRequest("this cursor is not one of ours") from None
        found = [view async for view in _matching(hub, cwd, first + _LISTED + 1)]
        page = found[first : first + _LISTED]
        result: dict[str, Any] = {"sessions": [_info(view) for view in page]}
        if len(found) > first + _LISTED:
            result["nextCursor"] = str(first + _LISTED)
        return result

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        name = _session_id(params)
        hub = await self._hub()
        session_id = await self._find(hub, name)
        attached = self._sessions.pop(name, None)
        if attached is not None:
            await attached.cancel()
        await hub.stop(session_id)
        if attached is not None:
            await attached.leave()
        return {}

    async def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        name = _session_id(params)
        hub = await self._hub()
        with suppress(NotFound):
            await hub.delete(await self._find(hub, name))
        attached = self._sessions.pop(name, None)
        if attached is not None:
            await attached.leave()
        return {}

    async def _fork(self, params: dict[str, Any]) -> dict[str, Any]:
        _refuse_extras(params, None)
        hub = await self._hub()
        forked = await hub.fork(await self._find(hub, _session_id(params)))
        return await self._enter(forked.id, replay=False)

    # -- in a session

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        said = message(params.get("prompt"))
        return {"stopReason": await (await self._attached(params)).prompt(said)}

    async def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        attached = await self._attached(params)
        await (await self._hub()).set_permission_mode(attached.id, _mode(params.get("modeId")))
        return {}

    async def _set_model(self, params: dict[str, Any]) -> dict[str, Any]:
        attached = await self._attached(params)
        await self._choose_model(attached, params.get("modelId"))
        return {}

    async def _set_config_option(self, params: dict[str, Any]) -> dict[str, Any]:
        attached = await self._attached(params)
        hub, value = await self._hub(), params.get("value")
        match params.get("configId"):
            case options.MODE:
                await hub.set_permission_mode(attached.id, _mode(value))
            case options.MODEL:
                await self._choose_model(attached, value)
            case options.EFFORT:
                await self._choose_effort(attached, value)
            case options.AGENT:
                attached = await self._choose_agent(attached, value)
            case other:
                raise BadRequest(f"there is no option {other!r}")
        return {"configOptions": await attached.options()}

    async def _choose_model(self, attached: Attached, value: Any) -> None:
        if not isinstance(value, str) or not value:
            raise BadRequest("a model is a name")
        view = await (await self._hub()).session(attached.id)
        if value == options.DEFAULT and view.model is None:
            return
        await (await self._hub()).set_model(attached.id, value)

    async def _choose_effort(self, attached: Attached, value: Any) -> None:
        hub = await self._hub()
        view = await hub.session(attached.id)
        if value == options.DEFAULT and view.model_reasoning_effort is None:
            return
        try:
            effort = ReasoningEffort(value)
        except ValueError:
            raise BadRequest(f"there is no effort {value!r}", choices=[*ReasoningEffort]) from None
        if view.model is None:
            raise BadRequest("choose a model first: this agent has not said which one it uses")
        await hub.set_model(attached.id, view.model, effort=effort)

    async def _choose_agent(self, attached: Attached, value: Any) -> Attached:
        """Before the first message another agent can take the place of this one; after it that is another session."""
        hub = await self._hub()
        view = await hub.session(attached.id)
        if value == view.agent:
            return attached
        if not isinstance(value, str) or not value:
            raise BadRequest("an agent is a name")
        if view.last_message is not None or view.turn_id is not None or view.queue:
            raise Conflict("a conversation stays with its agent: begin a new session for another one")
        created = await self._create(view.directory, value, {}, attached.name)
        await self._enter(attached.name, replay=False, session_id=created)
        await hub.delete(view.id)
        return self._sessions[attached.name]

    # -- small things

    async def _hub(self) -> Steering:
        return await self._house.opened()

    async def _attached(self, params: dict[str, Any]) -> Attached:
        attached = self._sessions.get(_session_id(params))
        if attached is None:
            raise NotFound("this client is in no such session: load or resume it first")
        return attached


async def _matching(hub: Steering, cwd: Any, most: int) -> AsyncIterator[SessionView]:
    count = itertools.count(1)
    async for view in hub.sessions():
        if cwd is None or view.directory == cwd:
            yield view
            if next(count) >= most:
                return


async def _machine(hub: Steering, view: SessionView) -> MachineView | None:
    try:
        return next((one for one in await hub.machines() if one.id == view.machine_id), None)
    except FarsteerError:
        return None


def _info(view: SessionView) -> dict[str, Any]:
    updated = dt.datetime.fromtimestamp(view.updated_at / 1000, dt.UTC)
    info: dict[str, Any] = {
        "sessionId": view.id,
        "cwd": view.directory,
        "updatedAt": updated.isoformat().replace("+00:00", "Z"),
        "_meta": {
            "farsteer": {"agent": view.agent, "machineId": view.machine_id, "status": view.status.value}
        },
    }
    return {**info, "title": view.title} if view.title else info


def _session_id(params: dict[str, Any]) -> str:
    session_id = params.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise BadRequest("sessionId is missing")
    return session_id


def _directory(params: dict[str, Any]) -> str:
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not cwd.startswith("/"):
        raise BadRequest("cwd is an absolute path")
    return cwd


def _mode(value: Any) -> PermissionMode:
    try:
        return PermissionMode(value)
    except ValueError:
        raise BadRequest(f"there is no mode {value!r}", choices=[*PermissionMode]) from None


def _refuse_extras(params: dict[str, Any], agent: str | None) -> None:
    """What an agent cannot be given is refused: a client that believes its tools are there would be misled."""
    for name in ("mcpServers", "additionalDirectories"):
        if params.get(name):
            who = f"agent {agent}" if agent else "this agent"
            raise NotCapable(f"{who} takes no {name} from a client", field=name)
