"""Where sessions are found and made: the hub, the machine, and what clients call their sessions."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import msgspec

from farsteer.client.access import absolute
from farsteer.client.hub_client import HubClient
from farsteer.client.machines import choose_machine
from farsteer.core.api import CreateSession, MachineView
from farsteer.core.errors import FarsteerError, NotFound
from farsteer.core.ids import is_uuid
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.faces.droid.dialect import DOCUMENTED, Dialect
from farsteer.faces.droid.modes import EFFORTS
from farsteer.faces.droid.params import Initialize, Model
from farsteer.faces.hub_connection import HubConnection

_log = logging.getLogger(__name__)

SOURCE = "droid-rpc"
_SOURCE_CHARS = 100
_UNNAMED = "default"
"""The model of an agent that names none."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was said on the command line; a request says it better."""

    directory: str = "."
    agent: str | None = None
    machine: str | None = None
    model: str | None = None
    mode: PermissionMode | None = None
    effort: ReasoningEffort | None = None
    session_id: str | None = None
    """The session to be in from the start."""
    dialect: Dialect = DOCUMENTED


class Lobby:
    def __init__(self, options: Options, house: HubConnection) -> None:
        self._options = options
        self._house = house
        self._machine: MachineView | None = None
        self._begun: set[str] = set()
        self._names: dict[str, str] = {}
        """Our id of each session that the client has named itself."""

    @property
    def hub(self) -> HubClient:
        return self._house.current

    async def machine(self) -> MachineView:
        if self._machine is None:
            machines = await (await self._house.client()).machines()
            self._machine = choose_machine(machines, self._options.machine)
        return self._machine

    async def models(self, agent: str | None) -> list[Model]:
        known = {info.name: info for info in (await self.machine()).agents}
        info = known.get(agent or self._options.agent or "")
        if info is None:
            return []
        return [Model.named(name, EFFORTS) for name in info.models]

    async def default_model(self, agent: str) -> str:
        models = await self.models(agent)
        return models[0].id if models else _UNNAMED

    async def create(
        self, given: Initialize, mode: PermissionMode | None, effort: ReasoningEffort | None
    ) -> str:
        """Begin a session; its id. It is ready to take a message. Raises FarsteerError."""
        options, machine = self._options, await self.machine()
        named = f"{SOURCE}:{given.session_id}" if given.session_id else SOURCE
        request = CreateSession(
            machine_id=machine.id,
            directory=absolute(given.cwd or options.directory),
            agent=options.agent,
            model=given.model_id or options.model,
            model_reasoning_effort=effort or options.effort,
            permission_mode=mode or options.mode,
            source=named if len(named) <= _SOURCE_CHARS else SOURCE,
        )
        session_id = (await self.hub.create_session(request)).session_id
        self._begun.add(session_id)
        return session_id

    async def fork(self, session_id: str, *, seq: int | None = None, title: str | None = None) -> str:
        """A session that begins as this one did. Raises FarsteerError."""
        fork = (await self.hub.fork(session_id, seq=seq, title=title or None)).id
        self._begun.add(fork)
        return fork

    async def brings_files_back(self, agent: str) -> bool:
        known = {info.name: info for info in (await self.machine()).agents}
        return agent in known and known[agent].capabilities.file_restore

    async def name(self, session_id: str, wanted: str | None) -> str:
        """What the client will call it: as it wished, unless that is the id of another session."""
        if not wanted:
            return session_id
        if is_uuid(wanted):
            with suppress(NotFound):
                await self.hub.session(wanted)
                return session_id
        self._names[wanted] = session_id
        return wanted

    async def find(self, name: str) -> str:
        """The id of the session that the client calls so. Raises NotFound."""
        hub = await self._house.client()
        if name in self._names:
            return self._names[name]
        if is_uuid(name):
            with suppress(NotFound):
                return (await hub.session(name)).id
        elif not self._options.dialect.custom_ids:
            raise NotFound("no such session")
        async for session in hub.sessions():
            if session.source == f"{SOURCE}:{name}":
                return session.id
        raise NotFound("no such session")

    async def stop(self, session_id: str) -> None:
        await self.hub.stop(session_id)
        self._begun.discard(session_id)

    async def let_go(self, session_id: str) -> None:
        """A session that was begun here need not keep its process; one that was only visited stays as it is."""
        if session_id not in self._begun:
            return
        self._begun.discard(session_id)
        try:
            await self.hub.stop(session_id)
        except FarsteerError as error:
            _log.warning("the agent of session %s may still run: %s", session_id, error.message)

    async def close(self) -> None:
        """Let go of what was begun and never entered."""
        await asyncio.gather(*(self.let_go(session_id) for session_id in [*self._begun]))
