"""`AsyncClient`: every operation of a hub's REST and live API."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote
from weakref import WeakSet

import httpx
import msgspec

from farsteer.client.access import absolute, find_token, find_url
from farsteer.client.http import CREATE_SECONDS, Connection
from farsteer.client.machines import choose_machine
from farsteer.client.stream import EventStream
from farsteer.core import api
from farsteer.core.events import Entry, SessionStatus, decode_entry
from farsteer.core.ids import new_id
from farsteer.core.lines import LineSplitter
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Delivery, QueueItem
from farsteer.core.session import StoredConversation

if TYPE_CHECKING:
    from farsteer.client.session import AsyncSession

PAGE = 100
ExportFormat = Literal["jsonl", "markdown"]
TURN_PATIENCE = 300.0


class _Messages(msgspec.Struct):
    messages: list[msgspec.Raw]
    page: api.Page


class AsyncClient:
    """A hub, for asyncio. `farsteer.Client` is the same without `await`.

    Without arguments it finds the hub and the token of this machine. Failures are the exceptions of
    `farsteer.core.errors`; branch on their class or `code`.
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
        self._connection = Connection(address, find_token(token, address), transport=transport)
        self._streams: WeakSet[EventStream] = WeakSet()

    @property
    def url(self) -> str:
        return self._connection.url

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for stream in list(self._streams):
            await stream.aclose()
        await self._connection.aclose()

    # -- the hub, its machines and agents

    async def health(self) -> api.Health:
        return await self._connection.call("GET", "/health", api.Health, anonymous=True)

    async def machines(self) -> list[api.MachineView]:
        return (await self._connection.call("GET", "/api/machines", api.MachinesResponse)).machines

    async def machine(self, machine_id: str) -> api.MachineView:
        path = f"/api/machines/{_part(machine_id)}"
        return (await self._connection.call("GET", path, api.MachineResponse)).machine

    async def agents(self) -> list[api.AgentView]:
        return (await self._connection.call("GET", "/api/agents", api.AgentsResponse)).agents

    async def conversations(
        self, machine_id: str, agent: str, *, directory: str | None = None, limit: int = 100
    ) -> list[StoredConversation]:
        """What an agent of a machine has stored, newest first, whether or not it is a session already."""
        path = f"/api/machines/{_part(machine_id)}/conversations"
        query = {"agent": agent, "directory": directory, "limit": limit}
        found = await self._connection.call("GET", path, api.ConversationsResponse, query=query)
        return found.conversations

    async def adopt(
        self, machine_id: str, agent: str, native_id: str, *, title: str | None = None
    ) -> AsyncSession:
        """Make a session of a conversation that the agent has; it goes on where it was."""
        path = f"/api/machines/{_part(machine_id)}/import"
        body = api.ImportConversation(agent=agent, native_id=native_id, title=title)
        return await self._created(path, body)

    async def usage(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        group_by: api.UsageGrouping = "day",
        session_id: str | None = None,
    ) -> api.UsageResponse:
        """Tokens and cost; `since` and `until` are days (YYYY-MM-DD, UTC), both included."""
        query = {"from": since, "to": until, "groupBy": group_by, "sessionId": session_id}
        return await self._connection.call("GET", "/api/usage", api.UsageResponse, query=query)

    async def online_users(self) -> list[api.OnlineUser]:
        return (await self._connection.call("GET", "/api/online-users", api.OnlineUsersResponse)).users

    # -- sessions

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
        permission_timeout: float | None = None,
        source: str | None = None,
    ) -> AsyncSession:
        """Start a session and return a handle to steer it by; it is ready to take a message.

        `machine` is an id, the beginning of one, or a host name; left out, it is the only active machine, else this
        one. `worktree` is True or a name: the agent then works in a new git worktree of the directory.
        """
        chosen = choose_machine(await self.machines(), machine)
        created = await self.create_session(
            api.CreateSession(
                machine_id=chosen.id,
                directory=absolute(directory),
                agent=agent,
                prompt=prompt,
                model=model,
                model_reasoning_effort=None if effort is None else ReasoningEffort(effort),
                permission_mode=None if permission_mode is None else PermissionMode(permission_mode),
                yolo=yolo,
                title=title,
                session_type=api.SessionType.WORKTREE if worktree else None,
                worktree_name=worktree if isinstance(worktree, str) and worktree else None,
                permission_timeout=permission_timeout,
                source=source,
            )
        )
        return self.attach(created.session_id)

    def attach(self, session_id: str) -> AsyncSession:
        """A handle to a session that exists."""
        from farsteer.client.session import AsyncSession

        return AsyncSession(self, session_id)

    async def create_session(
        self, request: api.CreateSession, *, idempotency_key: str | None = None
    ) -> api.SessionCreated:
        """Create a session. A failure carries the steps taken as `details["logs"]`."""
        return await self._connection.call(
            "POST",
            "/api/sessions",
            api.SessionCreated,
            body=request,
            headers={"Idempotency-Key": idempotency_key or new_id()},
            repeatable=True,
            timeout=CREATE_SECONDS,
        )

    async def sessions(
        self,
        *,
        machine_id: str | None = None,
        agent: str | None = None,
        state: SessionStatus | str | None = None,
        text: str | None = None,
    ) -> AsyncIterator[api.SessionView]:
        """Every session, page by page as you go on."""
        query = {"machineId": machine_id, "agent": agent, "state": state, "text": text, "limit": PAGE}
        cursor: str | None = None
        while True:
            page = await self._connection.call(
                "GET", "/api/sessions", api.SessionsResponse, query={**query, "cursor": cursor}
            )
            for session in page.sessions:
                yield session
            cursor = page.next_cursor
            if cursor is None:
                return

    async def session(self, session_id: str) -> api.SessionView:
        return (await self._connection.call("GET", _session(session_id), api.SessionResponse)).session

    async def rename(self, session_id: str, title: str) -> None:
        body = api.RenameSession(title=title)
        await self._connection.call("PATCH", _session(session_id), api.Done, body=body, repeatable=True)

    async def delete(self, session_id: str) -> None:
        """End the agent and forget the session with its history."""
        await self._connection.call("DELETE", _session(session_id), api.Done)

    async def abort(self, session_id: str) -> None:
        """Interrupt the running turn; queued messages follow."""
        await self._connection.call("POST", _session(session_id, "abort"), api.Done)

    async def stop(self, session_id: str) -> None:
        """End the agent's process, keep the session."""
        await self._connection.call("POST", _session(session_id, "stop"), api.Done)

    async def resume(self, session_id: str) -> None:
        """Make sure the agent's process runs; the next message would start it too."""
        await self._connection.call("POST", _session(session_id, "resume"), api.Done, timeout=CREATE_SECONDS)

    async def rewind(self, session_id: str, seq: int, *, restore_files: bool = True) -> api.SessionRewound:
        """Go on from before the message with this `seq`: the agent forgets it and all that followed."""
        body = api.RewindSession(seq=seq, restore_files=restore_files)
        path = _session(session_id, "rewind")
        return await self._connection.call(
            "POST", path, api.SessionRewound, body=body, timeout=CREATE_SECONDS
        )

    async def fork(
        self, session_id: str, *, seq: int | None = None, title: str | None = None
    ) -> AsyncSession:
        """A new session that begins as this one, up to before a message or up to and with another entry."""
        return await self._created(_session(session_id, "fork"), api.ForkSession(seq=seq, title=title))

    async def _created(self, path: str, body: msgspec.Struct) -> AsyncSession:
        created = await self._connection.call(
            "POST",
            path,
            api.SessionCreated,
            body=body,
            headers={"Idempotency-Key": new_id()},
            repeatable=True,
            timeout=CREATE_SECONDS,
        )
        return self.attach(created.session_id)

    async def export(self, session_id: str, *, form: ExportFormat = "jsonl") -> AsyncIterator[bytes]:
        """The session as it can be kept: JSON lines, or Markdown for people. In pieces, as they come."""
        response = await self._connection.subscribe(
            _session(session_id, "export"), query={"format": form}, headers={}
        )
        try:
            async for piece in response.aiter_bytes():
                yield piece
        except httpx.TransportError as error:
            raise self._connection.unreachable(error) from error
        finally:
            await response.aclose()

    async def set_permission_mode(self, session_id: str, mode: PermissionMode | str) -> None:
        body = api.SetPermissionMode(mode=PermissionMode(mode))
        path = _session(session_id, "permission-mode")
        await self._connection.call("POST", path, api.Done, body=body, repeatable=True)

    async def set_model(
        self, session_id: str, model: str, *, effort: ReasoningEffort | str | None = None
    ) -> None:
        body = api.SetModel(model=model, reasoning_effort=None if effort is None else ReasoningEffort(effort))
        await self._connection.call(
            "POST", _session(session_id, "model"), api.Done, body=body, repeatable=True
        )

    # -- messages and the queue

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        attachments: Sequence[api.NewAttachment] = (),
        local_id: str | None = None,
        delivery: Delivery | str = Delivery.QUEUE,
    ) -> api.MessageAccepted:
        """Put a message into the session's queue. Sent again with the same `local_id` it is the same message.

        `delivery` "now" interrupts the running turn and goes first; "steer" goes into it, where the agent can.
        """
        body = api.SendMessage(
            text=text,
            local_id=local_id or new_id(),
            attachments=list(attachments),
            delivery=Delivery(delivery),
        )
        path = _session(session_id, "messages")
        return await self._connection.call("POST", path, api.MessageAccepted, body=body, repeatable=True)

    async def messages(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        """The log, oldest first, from behind the sequence number `after`."""
        position: int | None = after
        while position is not None:
            page = await self._page(session_id, {"afterSeq": position, "limit": PAGE})
            for raw in page.messages:
                yield decode_entry(bytes(raw))
            position = page.page.next_after_seq if page.page.has_more else None

    async def log(self, session_id: str) -> AsyncIterator[Entry]:
        """The whole log as it is now, oldest first, in one stream: much faster than `messages` if it is long."""
        splitter, head = LineSplitter(), True
        async for chunk in self.export(session_id):
            for line in splitter.feed(chunk):
                if not head and isinstance(line, bytes):
                    yield decode_entry(line)
                head = False

    async def history(self, session_id: str, *, before: int | None = None) -> AsyncIterator[Entry]:
        """The log backwards, newest first, from before the sequence number `before`."""
        while True:
            page = await self._page(session_id, {"beforeSeq": before, "limit": PAGE})
            for raw in reversed(page.messages):
                yield decode_entry(bytes(raw))
            before = page.page.next_before_seq
            if before is None or not page.page.has_more:
                return

    async def _page(self, session_id: str, query: Mapping[str, int | None]) -> _Messages:
        return await self._connection.call("GET", _session(session_id, "messages"), _Messages, query=query)

    async def clear_messages(self, session_id: str, *, keep: int = 0) -> api.MessagesCleared:
        """Clear the visible history but the newest `keep` messages. The agent's own memory stays."""
        body = api.ClearMessages(keep_count=keep)
        path = _session(session_id, "messages")
        return await self._connection.call("DELETE", path, api.MessagesCleared, body=body)

    async def queue(self, session_id: str) -> list[QueueItem]:
        path = _session(session_id, "queue")
        return (await self._connection.call("GET", path, api.QueueResponse)).items

    async def cancel(self, session_id: str, item_id: str) -> None:
        """Take a message out of the queue, or learn that the agent has it."""
        await self._connection.call("DELETE", _session(session_id, "queue", item_id), api.Done)

    async def send_now(self, session_id: str, item_id: str) -> None:
        """Put a waiting message first and interrupt the running turn for it."""
        await self._connection.call("POST", _session(session_id, "queue", item_id, "send-now"), api.Done)

    async def typing(self, session_id: str, text: str, *, client_id: str | None = None) -> None:
        body = api.Typing(text=text, client_id=client_id)
        await self._connection.call("POST", _session(session_id, "typing"), api.Done, body=body)

    # -- approvals

    async def approvals(self) -> list[api.ApprovalView]:
        """What waits for a person, over all sessions."""
        return (await self._connection.call("GET", "/api/approvals", api.ApprovalsResponse)).approvals

    async def approve(
        self,
        session_id: str,
        approval_id: str,
        *,
        always: bool = False,
        answers: Mapping[str, Sequence[str]] | None = None,
        mode: PermissionMode | str | None = None,
        allow_tools: Sequence[str] = (),
        option_id: str | None = None,
        message: str | None = None,
    ) -> api.ApprovalAnswered:
        """Say yes; `always` for the rest of the session. `answers` maps a question's id to what was chosen."""
        return await self.answer(
            session_id,
            approval_id,
            api.Approve(
                decision="approved_for_session" if always else "approved",
                answers=None if answers is None else {key: list(chosen) for key, chosen in answers.items()},
                mode=None if mode is None else PermissionMode(mode),
                allow_tools=list(allow_tools),
                option_id=option_id,
                message=message,
            ),
        )

    async def deny(
        self,
        session_id: str,
        approval_id: str,
        *,
        abort: bool = False,
        message: str | None = None,
        option_id: str | None = None,
    ) -> api.ApprovalAnswered:
        """Say no, with a reason for the agent if you like; `abort` also ends the turn."""
        decision = "abort" if abort else "denied"
        return await self.answer(
            session_id, approval_id, api.Deny(decision=decision, message=message, option_id=option_id)
        )

    async def answer(
        self, session_id: str, approval_id: str, decision: api.Approve | api.Deny | bool
    ) -> api.ApprovalAnswered:
        """Answer a permission, a question or a plan. `AlreadyAnswered` if somebody was first."""
        if isinstance(decision, bool):
            decision = api.Approve() if decision else api.Deny()
        verb = "approve" if isinstance(decision, api.Approve) else "deny"
        path = _session(session_id, "permissions", approval_id, verb)
        return await self._connection.call("POST", path, api.ApprovalAnswered, body=decision)

    # -- live

    def events(
        self,
        session_id: str | None = None,
        *,
        types: Iterable[str] | None = None,
        since: str | None = None,
        patience: float | None = None,
    ) -> EventStream:
        """Everything that happens in the namespace, or in one session, from now or from behind the cursor `since`.

        It reconnects for as long as it takes, or for `patience` seconds.
        """
        stream = EventStream(
            self._connection, session_id=session_id, types=types, since=since, patience=patience
        )
        self._streams.add(stream)
        return stream

    def follow(self, session_id: str) -> EventStream:
        return self.events(session_id, patience=TURN_PATIENCE)

    # -- access tokens

    async def tokens(self) -> list[api.TokenView]:
        return (await self._connection.call("GET", "/api/tokens", api.TokensResponse)).tokens

    async def create_token(
        self,
        label: str,
        *,
        namespace: str | None = None,
        scopes: Sequence[str] | None = None,
        expires_in: int | None = None,
    ) -> api.TokenCreated:
        """Mint an access token. Its `secret` is shown this once."""
        body = api.NewToken(
            label=label,
            namespace=namespace,
            scopes=None if scopes is None else list(scopes),
            expires_in=expires_in,
        )
        return await self._connection.call("POST", "/api/tokens", api.TokenCreated, body=body)

    async def revoke_token(self, token_id: str) -> None:
        await self._connection.call("DELETE", f"/api/tokens/{_part(token_id)}", api.Done)


def _part(text: str) -> str:
    return quote(text, safe="")


def _session(*parts: str) -> str:
    """`/api/sessions/ID/VERB`, or with another id: `/api/sessions/ID/queue/ITEM`."""
    session_id, *rest = parts
    return "/".join(("/api/sessions", _part(session_id), *map(_part, rest)))
