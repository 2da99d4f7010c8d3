"""ACP's methods, for one client: an editor that sees every session of its namespace, any agent, any machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from farsteer.client.access import absolute
from farsteer.client.hub_client import HubClient
from farsteer.client.machines import choose_machine
from farsteer.core.api import CreateSession, MachineView, SessionView
from farsteer.core.errors import BadRequest, Conflict, FarsteerError, NotCapable, NotFound, Unauthorized
from farsteer.core.ids import is_uuid
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.faces.acp import options
from farsteer.faces.acp.asking import Desk
from farsteer.faces.acp.attached import Attached
from farsteer.faces.acp.content import message
from farsteer.faces.acp.extras import Extras
from farsteer.faces.acp.greeting import LOGIN, Client, Options
from farsteer.faces.acp.listing import SOURCE, listed, source_of
from farsteer.faces.hub_connection import HubConnection
from farsteer.jsonrpc.errors import unknown_method
from farsteer.jsonrpc.peer import Peer

_CLOSE_SECONDS = 10.0


class AcpAgent:
    """Everything but the greeting."""

    def __init__(self, given: Options, house: HubConnection, peer: Peer, client: Client) -> None:
        self._given = given
        self._house = house
        self._peer = peer
        self.client = client
        self._sessions: dict[str, Attached] = {}
        """By the client's name for them."""
        self._named = given.session_id
        self._extras: dict[str, Extras] = {}
        """What each session was begun with here."""
        self._methods: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "authenticate": self._authenticate,
            **({} if given.forget is None else {"logout": self._logout}),
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

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        known = self._methods.get(method)
        if known is None:
            raise unknown_method(method)
        try:
            return await known(params)
        except Unauthorized:
            # Whoever logs in now has another token, perhaps of another hub.
            await self._part()
            raise

    async def notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "session/cancel":
            attached = self._sessions.get(str(params.get("sessionId")))
            if attached is not None:
                await attached.cancel()

    async def leave(self) -> None:
        """The client is gone; what runs goes on."""
        for attached in [*self._sessions.values()]:
            await attached.leave()
        self._sessions.clear()
        self._extras.clear()

    # -- the connection

    async def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("methodId") != LOGIN:
            raise BadRequest(f"there is no way to log in named {params.get('methodId')!r}", methods=[LOGIN])
        await (await self._hub()).machines()
        return {}

    async def _logout(self, params: dict[str, Any]) -> dict[str, Any]:
        assert self._given.forget is not None
        self._given.forget()
        await self._part()
        return {}

    async def _part(self) -> None:
        """Away from this hub; the next request looks for one anew."""
        await self.leave()
        await self._house.disconnect()

    # -- sessions

    async def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        directory, extras = _directory(params), Extras.of(params)
        if self._named is not None:
            result = await self._enter(self._named, replay=False, late=True)
            self._named = None
            return result
        hub = await self._hub()
        machine = choose_machine(await hub.machines(), self._given.machine)
        request = CreateSession(
            machine_id=machine.id, directory=absolute(directory), agent=self._given.agent, source=SOURCE
        )
        session_id = await self._create(hub, request, extras)
        self._extras[session_id] = extras
        # What happened while it began, a server of tools that could not be reached perhaps, is told too.
        return await self._enter(session_id, replay=False, late=True)

    async def _create(self, hub: HubClient, request: CreateSession, extras: Extras) -> str:
        """In the lenient way with as much of it as the agent can take."""
        *more, least = [extras, *(extras.less if self._given.lenient else [])]
        for wanted in more:
            with suppress(NotCapable):
                return (await hub.create_session(wanted.added(request))).session_id
        try:
            return (await hub.create_session(least.added(request))).session_id
        except NotCapable as error:
            raise (_hinted(error) if least else error) from None

    async def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._back(params, replay=True)

    async def _resume(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._back(params, replay=False)

    async def _back(self, params: dict[str, Any], *, replay: bool) -> dict[str, Any]:
        """A session keeps what it was begun with, so what the client brings along now is only looked at."""
        Extras.of(params)
        result = await self._enter(_session_id(params), replay=replay)
        del result["sessionId"]
        return result

    async def _enter(self, name: str, *, replay: bool, late: bool = False) -> dict[str, Any]:
        """Be in a session. `late`: the past is told after the answer, because before it nobody listens."""
        hub = await self._hub()
        known = self._sessions.get(name)
        if known is not None:
            view = await known.again(replay=replay or late)
            result = await self._described(hub, name, view)
            known.ask_again()
            return result
        attached, result = await self._attach(
            hub, name, await self._find(hub, name), replay=replay, late=late
        )
        before = self._sessions.get(name)
        if before is not None:  # the client asked for it twice at once
            await before.leave()
        self._sessions[name] = attached
        # Nothing else runs between this and the answer, so the first update comes after it.
        attached.begin()
        return result

    async def _attach(
        self, hub: HubClient, name: str, session_id: str, *, replay: bool, late: bool = False
    ) -> tuple[Attached, dict[str, Any]]:
        attached = Attached(self._peer, hub, Desk(self._peer, forms=self.client.forms), session_id, name)
        try:
            view = await attached.enter(replay=replay, late=late)
            return attached, await self._described(hub, name, view)
        except BaseException:
            await attached.leave()
            raise

    async def _described(self, hub: HubClient, name: str, view: SessionView) -> dict[str, Any]:
        machine = await _machine(hub, view)
        agents = {} if machine is None else {info.name: info for info in machine.agents}
        return {
            "sessionId": name,
            "modes": options.modes(view),
            "models": options.models(view, agents.get(view.agent)),
            "configOptions": options.config_options(view, machine),
        }

    async def _find(self, hub: HubClient, name: str) -> str:
        """The id of what the client calls so. Raises NotFound."""
        attached = self._sessions.get(name)
        if attached is not None:
            return attached.id
        if is_uuid(name):
            with suppress(NotFound):
                return (await hub.session(name)).id
        async for view in hub.sessions():
            if view.source == source_of(name):
                return view.id
        raise NotFound("no such session", sessionId=name)

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        return await listed(await self._hub(), params.get("cwd"), params.get("cursor"))

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        name = _session_id(params)
        hub = await self._hub()
        session_id = await self._find(hub, name)
        attached = self._forgotten(name)
        try:
            if attached is not None:
                await attached.cancel()
            await hub.stop(session_id)
            if attached is not None:
                await attached.settled(_CLOSE_SECONDS)
        finally:
            if attached is not None:
                await attached.leave()
        return {}

    def _forgotten(self, name: str) -> Attached | None:
        self._extras.pop(name, None)
        return self._sessions.pop(name, None)

    async def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        name = _session_id(params)
        hub = await self._hub()
        with suppress(NotFound):
            await hub.delete(await self._find(hub, name))
        attached = self._forgotten(name)
        if attached is not None:
            await attached.leave()
        return {}

    async def _fork(self, params: dict[str, Any]) -> dict[str, Any]:
        """A fork has what its source has; what the client brings along now is only looked at."""
        Extras.of(params)
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
        if value == options.DEFAULT:
            if view.model is None:
                return
            raise BadRequest("a model was chosen already: choose another by its name")
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
        request = CreateSession(
            machine_id=view.machine_id, directory=view.directory, agent=value, source=source_of(attached.name),
            permission_mode=view.permission_mode,
        )  # fmt: skip
        extras = self._extras.get(attached.name)
        if extras is None and (view.mcp_servers or view.additional_directories):
            raise Conflict("only where this session was begun its MCP servers are known: begin a new one")
        created = await self._create(hub, request, extras or Extras())
        try:
            other, _ = await self._attach(hub, attached.name, created, replay=False)
        except BaseException:
            with suppress(FarsteerError):
                await hub.delete(created)
            raise
        self._sessions[attached.name] = other
        other.begin()
        await attached.leave()
        with suppress(NotFound):
            await hub.delete(view.id)
        return other

    # -- small things

    async def _hub(self) -> HubClient:
        return await self._house.client()

    async def _attached(self, params: dict[str, Any]) -> Attached:
        attached = self._sessions.get(_session_id(params))
        if attached is None:
            raise NotFound("this client is in no such session: load or resume it first")
        return attached


async def _machine(hub: HubClient, view: SessionView) -> MachineView | None:
    try:
        return next((one for one in await hub.machines() if one.id == view.machine_id), None)
    except FarsteerError:
        return None


def _hinted(error: NotCapable) -> NotCapable:
    hinted = NotCapable(f"{error.message}; `farsteer acp --lenient` goes on without")
    hinted.details = error.details
    return hinted


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
