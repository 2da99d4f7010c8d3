"""The operations of a client on sessions: create, list, change, stop and delete."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

import httpx

from farsteer.client.connection import CREATE_SECONDS, RestConnection, api_path
from farsteer.core import api
from farsteer.core.events import SessionStatus
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.session import SessionType
from farsteer.core.worktrees import SETUP_SECONDS

PAGE_SIZE = 100
ExportFormat = Literal["jsonl", "markdown"]


class SessionOperations:
    """A base class of `AsyncClient`."""

    _connection: RestConnection

    async def create_session(
        self, request: api.CreateSession, *, idempotency_key: str | None = None, timeout: float | None = None
    ) -> api.SessionCreated:
        """Create a session and wait until its agent is ready. `start` does the same with fewer words.

        Args:
            request: Everything about the session.
            idempotency_key: A second call with the same key returns the same session.

        Raises:
            FarsteerError: The session could not be created. `details["logs"]` has the steps that were taken.
        """
        return await self._connection.call(
            "POST",
            api_path("sessions"),
            api.SessionCreated,
            body=request,
            headers={"Idempotency-Key": idempotency_key or new_id()},
            repeatable=True,
            wait=CREATE_SECONDS + (SETUP_SECONDS if request.session_type is SessionType.WORKTREE else 0.0),
            timeout=timeout,
        )

    async def sessions(
        self,
        *,
        machine_id: str | None = None,
        agent: str | None = None,
        state: SessionStatus | str | None = None,
        text: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[api.SessionView]:
        """Iterate over the sessions, the one changed last first. Pages are fetched as needed.

        Args:
            machine_id: Only sessions on this machine.
            agent: Only sessions of this agent.
            state: Only sessions with this status.
            text: Only sessions whose title or last message contains this.
            timeout: Seconds that each page may take.
        """
        query = {"machineId": machine_id, "agent": agent, "state": state, "text": text, "limit": PAGE_SIZE}
        cursor: str | None = None
        while True:
            page = await self._connection.call(
                "GET",
                api_path("sessions"),
                api.SessionsResponse,
                query={**query, "cursor": cursor},
                timeout=timeout,
            )
            for session in page.sessions:
                yield session
            cursor = page.next_cursor
            if cursor is None:
                return

    async def session(self, session_id: str, *, timeout: float | None = None) -> api.SessionView:
        """Return the current state of a session.

        Raises:
            NotFound: There is no session with this id.
        """
        path = api_path("sessions", session_id)
        return (await self._connection.call("GET", path, api.SessionResponse, timeout=timeout)).session

    async def rename(self, session_id: str, title: str, *, timeout: float | None = None) -> None:
        """Change the title of a session."""
        path = api_path("sessions", session_id)
        body = api.RenameSession(title=title)
        await self._connection.call("PATCH", path, api.Done, body=body, repeatable=True, timeout=timeout)

    async def delete(self, session_id: str, *, timeout: float | None = None) -> None:
        """Stop the agent and delete the session with its history. This cannot be undone."""
        await self._connection.call("DELETE", api_path("sessions", session_id), api.Done, timeout=timeout)

    async def abort(self, session_id: str, *, timeout: float | None = None) -> None:
        """Interrupt the running turn, which then ends as cancelled. Queued messages follow."""
        await self._connection.call(
            "POST", api_path("sessions", session_id, "abort"), api.Done, timeout=timeout
        )

    async def stop(self, session_id: str, *, timeout: float | None = None) -> None:
        """End the agent's process and keep the session. The next message starts it again."""
        await self._connection.call(
            "POST", api_path("sessions", session_id, "stop"), api.Done, timeout=timeout
        )

    async def resume(self, session_id: str, *, timeout: float | None = None) -> None:
        """Start the agent's process if it does not run. Not needed before a message, which does so too."""
        path = api_path("sessions", session_id, "resume")
        await self._connection.call("POST", path, api.Done, wait=CREATE_SECONDS, timeout=timeout)

    async def rewind(
        self, session_id: str, seq: int, *, restore_files: bool = True, timeout: float | None = None
    ) -> api.SessionRewound:
        """Remove a message and everything after it from the conversation.

        Args:
            session_id: The session.
            seq: The sequence number of the message, which must be one of a person.
            restore_files: Also restore the files that the agent changed since, if it supports that.

        Returns:
            The text of the removed message, and what happened to files and queued messages.

        Raises:
            NotFound: The session has no such message.
            NotCapable: The agent cannot be rewound.
        """
        body = api.RewindSession(seq=seq, restore_files=restore_files)
        path = api_path("sessions", session_id, "rewind")
        return await self._connection.call(
            "POST", path, api.SessionRewound, body=body, wait=CREATE_SECONDS, timeout=timeout
        )

    async def export(
        self, session_id: str, *, form: ExportFormat = "jsonl", timeout: float | None = None
    ) -> AsyncIterator[bytes]:
        """Iterate over the session as a file, in chunks as they arrive.

        Args:
            session_id: The session.
            form: `jsonl` is complete: the session on the first line, then one entry of the log per line. `markdown`
                is meant to be read.
            timeout: Seconds to wait for each chunk.
        """
        response = await self._connection.open_stream(
            api_path("sessions", session_id, "export"), query={"format": form}, headers={}, timeout=timeout
        )
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except httpx.TransportError as error:
            raise self._connection.unreachable(error) from error
        finally:
            await response.aclose()

    async def set_permission_mode(
        self, session_id: str, mode: PermissionMode | str, *, timeout: float | None = None
    ) -> None:
        """Change what the agent may do without asking."""
        body = api.SetPermissionMode(mode=PermissionMode(mode))
        path = api_path("sessions", session_id, "permission-mode")
        await self._connection.call("POST", path, api.Done, body=body, repeatable=True, timeout=timeout)

    async def set_model(
        self,
        session_id: str,
        model: str,
        *,
        effort: ReasoningEffort | str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Change the model and, if given, the reasoning effort."""
        body = api.SetModel(model=model, reasoning_effort=None if effort is None else ReasoningEffort(effort))
        path = api_path("sessions", session_id, "model")
        await self._connection.call("POST", path, api.Done, body=body, repeatable=True, timeout=timeout)

    async def switch_agent(
        self, session_id: str, agent: str, *, model: str | None = None, timeout: float | None = None
    ) -> None:
        """Go on with another agent that runs through the same CLI, such as `claude` and `glm`."""
        path = api_path("sessions", session_id, "agent")
        body = api.SwitchAgent(agent=agent, model=model)
        await self._connection.call("POST", path, api.Done, body=body, repeatable=True, timeout=timeout)
