"""Sessions as a Droid client sees them: found and created by name, forked, rewound, released."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from contextlib import suppress
from pathlib import Path

import msgspec

from farsteer.client.config import absolute_path
from farsteer.client.hub_client import HubClient
from farsteer.client.machines import choose_machine
from farsteer.core.api import CreateSession, MachineView
from farsteer.core.droid import DroidRewindResult, RewindFile, RewindInfo
from farsteer.core.errors import Conflict, ErrorCode, FarsteerError, NotFound
from farsteer.core.events import DiffBlock, FilesRestored, ToolCall, ToolCallUpdate, ToolStatus, UserMessage
from farsteer.core.ids import is_uuid
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.wire import WireStruct
from farsteer.faces.droid.params import InitializeParams, ModelInfo, RewindParams
from farsteer.faces.droid.protocol import DEFAULT_DIALECT, Dialect
from farsteer.faces.hub_connection import HubConnection

_logger = logging.getLogger(__name__)

SOURCE = "droid-rpc"
"""`source` of the sessions created here; a name that the client chose follows after a colon."""
_MAX_SOURCE_CHARS = 100
_UNKNOWN_MODEL = "default"
"""Reported for agents that list no models."""


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command line. What a request says takes precedence."""

    directory: str = "."
    agent: str | None = None
    machine: str | None = None
    model: str | None = None
    mode: PermissionMode | None = None
    effort: ReasoningEffort | None = None
    session_id: str | None = None
    """The session to enter before the first request."""
    dialect: Dialect = DEFAULT_DIALECT


class SessionFinder:
    """Finds and creates sessions in the hub, and keeps the names that the client has chosen for them."""

    def __init__(self, options: ServerOptions, connection: HubConnection) -> None:
        self._options = options
        self._connection = connection
        self._machine: MachineView | None = None
        self._created: set[str] = set()
        """Sessions that were created here and not released yet."""
        self._unused_id: str | None = None
        """The id for the next session, from the command line."""
        self._session_ids: dict[str, str] = {}
        """Our session id for each name that the client has chosen."""

    @property
    def hub(self) -> HubClient:
        return self._connection.current

    async def machine(self) -> MachineView:
        """Return the machine on which sessions are created."""
        if self._machine is None:
            machines = await (await self._connection.client()).machines()
            self._machine = choose_machine(machines, self._options.machine)
        return self._machine

    async def models(self, agent: str | None) -> list[ModelInfo]:
        """Return the models of an agent, as its machine knows them now: it learns them when the agent starts."""
        machine = await self.machine()
        machines = await (await self._connection.client()).machines()
        machine = next((one for one in machines if one.id == machine.id), machine)
        agents = {info.name: info for info in machine.agents}
        info = agents.get(agent or self._options.agent or "")
        return [ModelInfo.named(name) for name in info.models] if info is not None else []

    async def default_model(self, agent: str) -> str:
        models = await self.models(agent)
        return models[0].id if models else _UNKNOWN_MODEL

    async def restores_files(self, agent: str) -> bool:
        agents = {info.name: info for info in (await self.machine()).agents}
        return agent in agents and agents[agent].capabilities.file_restore

    async def create(
        self, params: InitializeParams, mode: PermissionMode | None, effort: ReasoningEffort | None
    ) -> str:
        """Create a session that is ready to take a message, and return its id. Raises FarsteerError.

        It gets the id that the client has chosen if that is a free UUID. If it is not free, it gets a new one: as with
        Droid, a client never enters an existing session this way.
        """
        options, machine = self._options, await self.machine()
        wanted = params.session_id or self._unused_id
        self._unused_id = None
        chosen = wanted if wanted and is_uuid(wanted) else None
        source = f"{SOURCE}:{params.session_id}" if params.session_id and chosen is None else SOURCE
        request = CreateSession(
            machine_id=machine.id,
            directory=absolute_path(params.cwd or options.directory),
            agent=options.agent,
            model=params.model_id or options.model,
            model_reasoning_effort=effort or options.effort,
            permission_mode=mode or options.mode,
            source=source if len(source) <= _MAX_SOURCE_CHARS else SOURCE,
            session_id=chosen,
        )
        try:
            session_id = (await self.hub.create_session(request)).session_id
        except Conflict as error:
            if error.code is not ErrorCode.SESSION_ID_TAKEN:
                raise
            request = msgspec.structs.replace(request, session_id=None)
            session_id = (await self.hub.create_session(request)).session_id
        self._created.add(session_id)
        return session_id

    async def fork(self, session_id: str, *, seq: int | None = None, title: str | None = None) -> str:
        """Fork a session, at `seq` if given, and return the fork's id. Raises FarsteerError."""
        fork = (await self.hub.fork(session_id, seq=seq, title=title or None)).id
        self._created.add(fork)
        return fork

    def assign_name(self, session_id: str, wanted: str | None) -> str:
        """Return the id the client is told: the name it has chosen, or the session's own id."""
        if not wanted or is_uuid(wanted):
            return session_id
        self._session_ids[wanted] = session_id
        return wanted

    async def find_initial(self, name: str) -> str | None:
        """Return the session that the command line names. If there is none, the next one gets that id.

        Raises NotFound if `name` cannot be the id of a new session.
        """
        try:
            return await self.find(name)
        except NotFound:
            if not is_uuid(name):
                raise
        self._unused_id = name
        return None

    async def find(self, name: str) -> str:
        """Return our id of the session that the client names. Raises NotFound."""
        hub = await self._connection.client()
        if name in self._session_ids:
            return self._session_ids[name]
        if is_uuid(name):
            with suppress(NotFound):
                return (await hub.session(name)).id
        elif not self._options.dialect.loads_custom_ids:
            raise NotFound("no such session")
        async for session in hub.sessions():
            if session.source == f"{SOURCE}:{name}":
                return session.id
        raise NotFound("no such session")

    async def stop(self, session_id: str) -> None:
        await self.hub.stop(session_id)
        self._created.discard(session_id)

    async def release(self, session_id: str) -> None:
        """Stop the session's process if the session was created here; others keep theirs."""
        if session_id not in self._created:
            return
        self._created.discard(session_id)
        try:
            await self.hub.stop(session_id)
        except FarsteerError as error:
            _logger.warning("cannot stop session %s, its agent may still run: %s", session_id, error.message)

    async def close(self) -> None:
        """Release the sessions that were created and never entered."""
        await asyncio.gather(*(self.release(session_id) for session_id in [*self._created]))


# -- forks and rewinds


class _RewindPoint(msgspec.Struct):
    """A user message and the files that were changed after it."""

    seq: int
    changed: dict[str, RewindFile]
    """Each file as it was before; a file without a hash did not exist."""


class SessionCopier:
    """Forks and rewinds as Droid has them: each makes a new session and leaves the source as it is.

    Only a rewind restores files. If a client wants that, the whole session is forked and the fork is rewound. Which
    files would be restored is read from the log, because the hub does not know what copies an agent keeps.
    """

    def __init__(self, finder: SessionFinder) -> None:
        self._finder = finder

    async def rewind_info(self, session_id: str, agent: str, message_id: str) -> RewindInfo:
        """Return what a rewind could do with files; nothing if there is no such message, as Droid answers."""
        point = await self._find(session_id, message_id)
        if point is None:
            return RewindInfo()
        files = [*point.changed.values()]
        if not await self._finder.restores_files(agent):
            reason = "the agent keeps no copies of files"
            return RewindInfo(
                evicted_files=[RewindFile(file_path=file.file_path, reason=reason) for file in files]
            )
        return RewindInfo(
            available_files=[file for file in files if file.content_hash is not None],
            created_files=[file for file in files if file.content_hash is None],
        )

    async def rewind(self, session_id: str, params: RewindParams) -> DroidRewindResult:
        """Make a copy of the session that ends before a message, and restore all changed files or none.

        Raises:
            NotFound: The session has no such message.
            Conflict: Only some of the changed files are to be restored.
        """
        point = await self._find(session_id, params.message_id)
        if point is None:
            raise NotFound("Target message not found in source session")
        files = {file.file_path for file in (*params.files_to_restore, *params.files_to_delete)}
        if not files:
            fork = await self._finder.fork(session_id, seq=point.seq, title=params.fork_title)
            return DroidRewindResult(new_session_id=fork)
        if files != {*point.changed}:
            raise Conflict("a rewind restores all files that were changed since the message, or none")
        fork = await self._finder.fork(session_id, title=params.fork_title)
        point_in_fork = await self._find(fork, params.message_id)
        if point_in_fork is None:
            raise Conflict("the message was removed in the meantime")
        rewound = await self._finder.hub.rewind(fork, point_in_fork.seq, restore_files=True)
        return _rewind_result(fork, params, rewound.files)

    async def _find(self, session_id: str, message_id: str) -> _RewindPoint | None:
        """Find a user message by the id that the client knows it by."""
        point: _RewindPoint | None = None
        proposed: dict[str, list[DiffBlock]] = {}
        async for entry in self._finder.hub.messages(session_id):
            event = entry.content
            if isinstance(event, UserMessage) and message_id in (entry.local_id, event.item_id):
                point = point or _RewindPoint(entry.seq, {})
            elif point is not None and isinstance(event, ToolCall | ToolCallUpdate):
                for block in _applied_diffs(event, proposed):
                    point.changed.setdefault(block.path, _file_before(block))
        return point


def _applied_diffs(event: ToolCall | ToolCallUpdate, proposed: dict[str, list[DiffBlock]]) -> list[DiffBlock]:
    """Return the diffs of a tool that has completed. Agents show them when proposed, when completed, or both times."""
    diffs = [block for block in event.content if isinstance(block, DiffBlock)]
    if event.status is None or not event.status.final:
        if diffs:
            proposed[event.tool_call_id] = diffs
        return []
    before = proposed.pop(event.tool_call_id, [])
    return (diffs or before) if event.status is ToolStatus.COMPLETED else []


def _file_before(block: DiffBlock) -> RewindFile:
    if block.old_text is None:
        return RewindFile(file_path=block.path)
    data = block.old_text.encode()
    return RewindFile(file_path=block.path, content_hash=hashlib.sha256(data).hexdigest(), size=len(data))


def _rewind_result(fork: str, params: RewindParams, files: FilesRestored) -> DroidRewindResult:
    paths = {*files.restored}
    restored = sum(file.file_path in paths for file in params.files_to_restore)
    deleted = sum(file.file_path in paths for file in params.files_to_delete)
    return DroidRewindResult(
        new_session_id=fork, restored_count=restored, deleted_count=deleted,
        failed_restore_count=len(params.files_to_restore) - restored,
        failed_delete_count=len(params.files_to_delete) - deleted,
    )  # fmt: skip


# -- the git repository of a session's directory

_ORIGIN_URL = re.compile(r'\[remote "origin"\][^\[]*?\n\s*url\s*=\s*(?P<url>\S+)')
_OWNER_AND_NAME = re.compile(r"[:/](?P<owner>[^/:]+)/(?P<name>[^/]+?)(?:\.git)?/?$")


class GitRepository(WireStruct):
    repo_name: str
    owner: str | None = None


def git_repository(directory: str) -> GitRepository | None:
    """Return the repository that contains the directory, read from its files without running git."""
    path = Path(directory)
    for folder in (path, *path.parents):
        if (folder / ".git").exists():
            return _origin(folder / ".git" / "config") or GitRepository(repo_name=folder.name)
    return None


def _origin(config: Path) -> GitRepository | None:
    try:
        text = config.read_text(errors="replace")
    except OSError:
        return None
    remote = _ORIGIN_URL.search(text)
    found = _OWNER_AND_NAME.search(remote["url"]) if remote else None
    return GitRepository(repo_name=found["name"], owner=found["owner"]) if found else None
