"""The ACP methods. A client can use every session of its namespace, with any agent on any machine."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from farsteer.client.config import absolute_path
from farsteer.client.hub_client import HubClient
from farsteer.client.machines import choose_machine
from farsteer.core.api import CreateSession
from farsteer.core.errors import BadRequest, Conflict, FarsteerError, NotCapable, NotFound, Unauthorized
from farsteer.faces.acp import settings
from farsteer.faces.acp.attached_session import AttachedSession, Replay
from farsteer.faces.acp.params import (
    SessionSetup,
    parse_chosen_id,
    parse_cwd,
    parse_prompt,
    parse_session_id,
    parse_session_setup,
)
from farsteer.faces.acp.server import LOGIN_METHOD, AcpOptions, ClientCapabilities
from farsteer.faces.acp.sessions import SOURCE, find_session, list_sessions, source_of
from farsteer.faces.hub_connection import HubConnection
from farsteer.jsonrpc.errors import unknown_method
from farsteer.jsonrpc.peer import Peer

_logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 10.0


class AcpAgent:
    """Handles the methods of one client, except `initialize`.

    Sessions are keyed by the id that the client uses; see `farsteer.faces.acp.sessions`.
    """

    def __init__(
        self, options: AcpOptions, hub_connection: HubConnection, peer: Peer, client: ClientCapabilities
    ) -> None:
        self._options = options
        self._hub_connection = hub_connection
        self._peer = peer
        self.client = client
        self._attached: dict[str, AttachedSession] = {}
        self._setups: dict[str, SessionSetup] = {}
        """What the sessions that this client created were given."""
        self._initial_session = options.session_id
        """The session that the next `session/new` returns, if any."""
        self._methods: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "authenticate": self._authenticate,
            **({} if options.forget_login is None else {"logout": self._logout}),
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

    async def handle_request(self, method: str, params: dict[str, Any]) -> Any:
        handler = self._methods.get(method)
        if handler is None:
            raise unknown_method(method)
        try:
            return await handler(params)
        except Unauthorized:
            # After a new login the token is another one, perhaps of another hub.
            await self._disconnect()
            raise

    async def handle_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "session/cancel":
            attached = self._attached.get(str(params.get("sessionId")))
            if attached is None:
                return
            try:
                await attached.cancel()
            except FarsteerError as error:
                # A notification has no answer; that of the prompt tells how it ended.
                _logger.warning("session %s is not interrupted: %s", attached.session_id, error.message)

    async def detach_all(self) -> None:
        """Stop following every session. Their turns go on."""
        for attached in [*self._attached.values()]:
            await attached.detach()
        self._attached.clear()
        self._setups.clear()

    # -- login

    async def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        method_id = params.get("methodId")
        if method_id != LOGIN_METHOD:
            raise BadRequest(f"unknown login method {method_id!r}", methods=[LOGIN_METHOD])
        hub = await self._hub()
        await hub.machines()  # raises Unauthorized if the token is not valid
        return {}

    async def _logout(self, params: dict[str, Any]) -> dict[str, Any]:
        assert self._options.forget_login is not None
        self._options.forget_login()
        await self._disconnect()
        return {}

    async def _disconnect(self) -> None:
        """Leave the hub. The next request opens one again."""
        await self.detach_all()
        await self._hub_connection.disconnect()

    # -- creating, attaching and removing sessions

    async def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        cwd, setup = parse_cwd(params), parse_session_setup(params)
        if self._initial_session is not None:
            session_id = self._initial_session
            description = await self._attach(session_id, Replay.AFTER_RESPONSE)
            self._initial_session = None
            return {"sessionId": session_id, **description}
        hub = await self._hub()
        machine = choose_machine(await hub.machines(), self._options.machine)
        request = CreateSession(
            machine_id=machine.id, directory=absolute_path(cwd), agent=self._options.agent, source=SOURCE,
            session_id=parse_chosen_id(params),
        )  # fmt: skip
        session_id = await self._create_session(hub, request, setup)
        self._setups[session_id] = setup
        # The replay contains what happened during creation, such as an MCP server that could not be reached.
        return {"sessionId": session_id, **await self._attach(session_id, Replay.AFTER_RESPONSE)}

    async def _create_session(self, hub: HubClient, request: CreateSession, setup: SessionSetup) -> str:
        """Create a session and return its id. With `--lenient`, leave out what the agent does not support."""
        *preferred, last = [setup, *(setup.reductions if self._options.lenient else [])]
        for attempt in preferred:
            with suppress(NotCapable):
                return (await hub.create_session(attempt.apply_to(request))).session_id
        try:
            return (await hub.create_session(last.apply_to(request))).session_id
        except NotCapable as error:
            raise (error if last.is_empty else _with_lenient_hint(error)) from None

    async def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        parse_session_setup(params)  # only checked: a session keeps the setup it was created with
        return await self._attach(parse_session_id(params), Replay.BEFORE_RESPONSE)

    async def _resume(self, params: dict[str, Any]) -> dict[str, Any]:
        parse_session_setup(params)  # only checked, as in `session/load`
        return await self._attach(parse_session_id(params), Replay.NONE)

    async def _fork(self, params: dict[str, Any]) -> dict[str, Any]:
        parse_session_setup(params)  # only checked: a fork has the setup of its source
        hub = await self._hub()
        forked = await hub.fork(await self._find(hub, parse_session_id(params)))
        return {"sessionId": forked.id, **await self._attach(forked.id, Replay.NONE)}

    async def _attach(self, acp_id: str, replay: Replay) -> dict[str, Any]:
        """Follow a session and return its settings. Nothing may be awaited between this and the response."""
        hub = await self._hub()
        attached = self._attached.get(acp_id)
        if attached is not None:
            view = await attached.reattach(replay=replay is not Replay.NONE)
            description = await settings.describe_settings(hub, view)
            attached.ask_approvals_again()
            return description
        session_id = await self._find(hub, acp_id)
        attached = AttachedSession(self._peer, hub, session_id, acp_id, forms=self.client.forms)
        try:
            view = await attached.attach(replay)
            description = await settings.describe_settings(hub, view)
        except BaseException:
            await attached.detach()
            raise
        concurrent = self._attached.get(acp_id)
        if concurrent is not None:  # the client has sent the same request twice without waiting
            await concurrent.detach()
        self._attached[acp_id] = attached
        attached.start()
        return description

    async def _find(self, hub: HubClient, acp_id: str) -> str:
        attached = self._attached.get(acp_id)
        return attached.session_id if attached is not None else await find_session(hub, acp_id)

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        return await list_sessions(await self._hub(), params.get("cwd"), params.get("cursor"))

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        acp_id = parse_session_id(params)
        hub = await self._hub()
        session_id = await self._find(hub, acp_id)
        attached = self._remove(acp_id)
        if attached is None:
            await hub.stop(session_id)
            return {}
        try:
            await attached.cancel()
            await hub.stop(session_id)
            await attached.wait_for_prompts(_CLOSE_SECONDS)
        finally:
            await attached.detach()
        return {}

    async def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        acp_id = parse_session_id(params)
        hub = await self._hub()
        with suppress(NotFound):
            await hub.delete(await self._find(hub, acp_id))
        attached = self._remove(acp_id)
        if attached is not None:
            await attached.detach()
        return {}

    def _remove(self, acp_id: str) -> AttachedSession | None:
        self._setups.pop(acp_id, None)
        return self._attached.pop(acp_id, None)

    # -- methods of an attached session

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        content = parse_prompt(params.get("prompt"))
        return {"stopReason": await self._attached_session(params).prompt(content)}

    async def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        attached = self._attached_session(params)
        await settings.set_mode(await self._hub(), attached.session_id, params.get("modeId"))
        return {}

    async def _set_model(self, params: dict[str, Any]) -> dict[str, Any]:
        attached = self._attached_session(params)
        await settings.set_model(await self._hub(), attached.session_id, params.get("modelId"))
        return {}

    async def _set_config_option(self, params: dict[str, Any]) -> dict[str, Any]:
        attached = self._attached_session(params)
        hub, session_id, value = await self._hub(), attached.session_id, params.get("value")
        match params.get("configId"):
            case settings.MODE:
                await settings.set_mode(hub, session_id, value)
            case settings.MODEL:
                await settings.set_model(hub, session_id, value)
            case settings.EFFORT:
                await settings.set_effort(hub, session_id, value)
            case settings.AGENT:
                session_id = await self._replace_agent(hub, attached, value)
            case other:
                raise BadRequest(f"unknown option {other!r}")
        return {"configOptions": await settings.describe_config_options(hub, session_id)}

    async def _replace_agent(self, hub: HubClient, attached: AttachedSession, agent: Any) -> str:
        """Replace a session that has no messages yet by one of another agent. Returns the hub's id of the new one.

        Raises:
            Conflict: the session has messages: a conversation cannot change its agent.
        """
        acp_id = attached.acp_id
        view = await hub.session(attached.session_id)
        if agent == view.agent:
            return view.id
        if not isinstance(agent, str) or not agent:
            raise BadRequest("an agent must be a name")
        if view.last_message is not None or view.turn_id is not None or view.queue:
            raise Conflict("a conversation stays with its agent: create a new session for another one")
        setup = self._setups.get(acp_id)
        if setup is None and (view.mcp_servers or view.additional_directories):
            raise Conflict("the MCP servers of this session are known only to the client that created it")
        request = CreateSession(
            machine_id=view.machine_id, directory=view.directory, agent=agent, source=source_of(acp_id),
            permission_mode=view.permission_mode,
        )  # fmt: skip
        session_id = await self._create_session(hub, request, setup or SessionSetup())
        replacement = AttachedSession(self._peer, hub, session_id, acp_id, forms=self.client.forms)
        try:
            await replacement.attach(Replay.NONE)
        except BaseException:
            await replacement.detach()
            with suppress(FarsteerError):
                await hub.delete(session_id)
            raise
        self._attached[acp_id] = replacement
        replacement.start()
        await attached.detach()
        with suppress(NotFound):
            await hub.delete(view.id)
        return session_id

    def _attached_session(self, params: dict[str, Any]) -> AttachedSession:
        attached = self._attached.get(parse_session_id(params))
        if attached is None:
            raise NotFound("the client is not attached to this session: load or resume it first")
        return attached

    async def _hub(self) -> HubClient:
        return await self._hub_connection.client()


def _with_lenient_hint(error: NotCapable) -> NotCapable:
    hinted = NotCapable(f"{error.message}; `farsteer acp --lenient` leaves it out")
    hinted.details = error.details
    return hinted
