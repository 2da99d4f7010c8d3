"""`AsyncClient`: every operation of a hub's REST and live API, for asyncio."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING
from weakref import WeakSet

import httpx
import msgspec

from farsteer.client.config import absolute_path, find_token, find_url
from farsteer.client.connection import CREATE_SECONDS, RestConnection, api_path
from farsteer.client.file_operations import FileOperations
from farsteer.client.hub_operations import HubOperations
from farsteer.client.machines import choose_machine
from farsteer.client.message_operations import MessageOperations
from farsteer.client.stream import EventStream
from farsteer.client.time_limit import time_limit
from farsteer.client.worktree_operations import WorktreeOperations
from farsteer.core import api
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.recent import RecentIds
from farsteer.core.session import SessionType

if TYPE_CHECKING:
    from farsteer.client.session import AsyncSession

TURN_RECONNECT_SECONDS = 300.0


class AsyncClient(HubOperations, MessageOperations, WorktreeOperations, FileOperations):
    """A client of one hub, for asyncio. `farsteer.Client` is the same without `await`.

        async with AsyncClient() as client:
            session = await client.start(".", agent="demo")
            print(await session.ask("hello"))

    Every method may raise an exception of `farsteer.errors`; branch on its class or its `code`. Common to all of them
    are `Unavailable` if the hub cannot be reached and `Unauthorized` if it refuses the access token. Every method that
    waits takes a `timeout` in seconds and then raises `TimedOut`.

    Args:
        url: The address of the hub. Defaults to `$FARSTEER_HUB`, the hub that runs on this machine's home directory,
            the hub of `farsteer login`, or `http://127.0.0.1:3006`, in this order.
        token: The access token. Defaults to `$CLI_API_TOKEN`, the token of `farsteer login` for this hub, or the token
            file in the home directory if the hub runs on it.
        allow_insecure: Allow unencrypted http to another machine.
        transport: An httpx transport to send requests by, for tests and unusual networks.

    Raises:
        BadRequest: The address is not one of a hub, or would send the token unencrypted.
        Unauthorized: No access token was found.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        allow_insecure: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        address = find_url(url, allow_insecure=allow_insecure)
        self._connection = RestConnection(address, find_token(address, token), transport=transport)
        self._streams: WeakSet[EventStream] = WeakSet()
        self.answered = RecentIds()

    @property
    def url(self) -> str:
        """The address of the hub."""
        return self._connection.url

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections and event streams."""
        for stream in list(self._streams):
            await stream.aclose()
        await self._connection.aclose()

    async def start(
        self,
        directory: str | os.PathLike[str],
        *,
        agent: str | None = None,
        prompt: str | None = None,
        machine: str | None = None,
        model: str | None = None,
        effort: ReasoningEffort | str | None = None,
        permission_mode: PermissionMode | str | None = None,
        yolo: bool | None = None,
        title: str | None = None,
        worktree: str | bool = False,
        base: str | None = None,
        permission_timeout: float | None = None,
        source: str | None = None,
        timeout: float | None = None,
    ) -> AsyncSession:
        """Create a session and wait until its agent is ready to take a message.

        Args:
            directory: The agent's working directory. `~` and relative paths are resolved on this machine.
            agent: The name of the agent. Defaults to the one the machine prefers.
            prompt: A first message.
            machine: The id of a machine, its first characters, a name or a host. Defaults to the only machine that
                is active, else to this one.
            model: The model. Defaults to the agent's own default.
            effort: The reasoning effort.
            permission_mode: What the agent may do without asking.
            yolo: Let the agent do everything without asking.
            title: The title. Defaults to the first message.
            worktree: True or a name gives the session a new git worktree of the directory.
            base: The branch, tag or commit that the worktree begins with. Defaults to what is checked out.
            permission_timeout: Seconds after which an approval that nobody answers is denied.
            source: Where the session comes from, such as "cli".
            timeout: Seconds until the agent must be ready. Defaults to 150, and to 450 with a worktree.

        Returns:
            A handle of the new session.

        Raises:
            MachineOffline: No machine is connected.
            BadRequest: Several machines fit.
            NotFound: There is no such machine.
            FarsteerError: The session could not be created. `details["logs"]` has the steps that were taken.
        """
        async with time_limit(timeout, "creating the session"):
            chosen = choose_machine(await self.machines(), machine)
            created = await self.create_session(
                api.CreateSession(
                    machine_id=chosen.id,
                    directory=absolute_path(directory),
                    agent=agent,
                    prompt=prompt,
                    model=model,
                    model_reasoning_effort=None if effort is None else ReasoningEffort(effort),
                    permission_mode=None if permission_mode is None else PermissionMode(permission_mode),
                    yolo=yolo,
                    title=title,
                    session_type=SessionType.WORKTREE if worktree else None,
                    worktree_name=worktree if isinstance(worktree, str) and worktree else None,
                    worktree_base=base,
                    permission_timeout=permission_timeout,
                    source=source,
                ),
                timeout=timeout,
            )
        return self.attach(created.session_id)

    def attach(self, session_id: str) -> AsyncSession:
        """Return a handle of an existing session. Does not check that it exists."""
        from farsteer.client.session import AsyncSession

        return AsyncSession(self, session_id)

    async def fork(
        self,
        session_id: str,
        *,
        seq: int | None = None,
        title: str | None = None,
        timeout: float | None = None,
    ) -> AsyncSession:
        """Create a session that begins with a copy of another one's conversation.

        Args:
            session_id: The session to copy.
            seq: Where the copy ends: before this entry if it is a message of a person, otherwise after it. None
                copies everything.
            title: The title of the new session.

        Raises:
            NotFound: There is no such session or entry.
            NotCapable: The agent cannot fork conversations.
        """
        path = api_path("sessions", session_id, "fork")
        return await self._create_by(path, api.ForkSession(seq=seq, title=title), timeout)

    async def handoff(
        self,
        session_id: str,
        agent: str,
        *,
        text: str | None = None,
        model: str | None = None,
        title: str | None = None,
        timeout: float | None = None,
    ) -> AsyncSession:
        """Create a session of another agent, in the same directory, that goes on with a conversation.

        The agent has the conversation itself if it can read it. Otherwise it gets a digest with the first message; the
        first entry of the new log shows it. The handed over session does not change.

        Args:
            session_id: The session to hand over.
            agent: The name of the other agent.
            text: A first message. Without it, the agent gets nothing until one is sent.
            model: The model. Defaults to the agent's own default.
            title: The title of the new session.

        Raises:
            Conflict: The agent works (`turn_running`).
        """
        path = api_path("sessions", session_id, "handoff")
        body = api.HandOff(agent=agent, text=text, model=model, title=title)
        return await self._create_by(path, body, timeout)

    async def adopt(
        self,
        machine_id: str,
        agent: str,
        native_id: str,
        *,
        title: str | None = None,
        timeout: float | None = None,
    ) -> AsyncSession:
        """Create a session from a conversation that an agent has stored. The session continues it.

        Args:
            machine_id: The machine that has the conversation.
            agent: The name of the agent.
            native_id: The agent's own id of the conversation, from `conversations`.
            title: The title of the new session.

        Raises:
            Conflict: The conversation is a session already.
            NotFound: There is no such conversation.
            NotCapable: The agent cannot import conversations.
        """
        path = api_path("machines", machine_id, "import")
        return await self._create_by(
            path, api.ImportConversation(agent=agent, native_id=native_id, title=title), timeout
        )

    async def _create_by(self, path: str, body: msgspec.Struct, timeout: float | None) -> AsyncSession:
        created = await self._connection.call(
            "POST",
            path,
            api.SessionCreated,
            body=body,
            headers={"Idempotency-Key": new_id()},
            repeatable=True,
            wait=CREATE_SECONDS,
            timeout=timeout,
        )
        return self.attach(created.session_id)

    def events(
        self,
        session_id: str | None = None,
        *,
        types: Iterable[str] | None = None,
        since: str | None = None,
        reconnect_timeout: float | None = None,
        timeout: float | None = None,
    ) -> EventStream:
        """Return the live events of the namespace, or of one session, as an async iterator.

            async with client.events(types=["session-updated"]) as events:
                async for event in events:
                    print(event.session_id, event.content)

        Args:
            session_id: Return only events of this session.
            types: Return only events of these types.
            since: The cursor of an event; begin behind it. Defaults to now.
            reconnect_timeout: Raise if a lost connection could not be restored for this many seconds. None retries
                without end.
            timeout: Seconds to wait for each event. After a `TimedOut` the iteration can go on, and misses nothing.
        """
        stream = EventStream(
            self._connection,
            session_id=session_id,
            types=types,
            since=since,
            reconnect_timeout=reconnect_timeout,
            timeout=timeout,
        )
        self._streams.add(stream)
        return stream

    def follow(self, session_id: str) -> EventStream:
        """Return the events of one session, as `Turn` needs them."""
        return self.events(session_id, reconnect_timeout=TURN_RECONNECT_SECONDS)
