"""The operations of a client that concern the hub as a whole: machines, agents, usage, access tokens."""

from __future__ import annotations

from collections.abc import Sequence

from farsteer.client.connection import RestConnection, api_path
from farsteer.core import api
from farsteer.core.foreign import ForeignSessionsResponse, ForeignSessionView
from farsteer.core.retention import Compaction, StorageReport
from farsteer.core.session import StoredConversation


class HubOperations:
    """A base class of `AsyncClient`."""

    _connection: RestConnection

    async def health(self, *, timeout: float | None = None) -> api.Health:
        """Return the hub's status and version. Needs no valid token."""
        return await self._connection.call("GET", "/health", api.Health, anonymous=True, timeout=timeout)

    async def machines(self, *, timeout: float | None = None) -> list[api.MachineView]:
        """Return all machines of the namespace, the connected ones (`active`) first."""
        return (
            await self._connection.call("GET", api_path("machines"), api.MachinesResponse, timeout=timeout)
        ).machines

    async def machine(self, machine_id: str, *, timeout: float | None = None) -> api.MachineView:
        """Return one machine.

        Raises:
            NotFound: There is no machine with this id.
        """
        path = api_path("machines", machine_id)
        return (await self._connection.call("GET", path, api.MachineResponse, timeout=timeout)).machine

    async def remove_machine(
        self, machine_id: str, *, delete_sessions: bool = False, timeout: float | None = None
    ) -> None:
        """Let the hub forget a machine that is not connected, and its key.

        Args:
            machine_id: The machine.
            delete_sessions: Delete its sessions too. Without this, a machine that has sessions is not removed.

        Raises:
            NotFound: There is no machine with this id.
            Conflict: It is connected, or has sessions.
            Forbidden: The token lacks the scope `admin`.
        """
        query = {"sessions": "delete" if delete_sessions else "keep"}
        await self._connection.call(
            "DELETE", api_path("machines", machine_id), api.Done, query=query, timeout=timeout
        )

    async def release_machine(self, machine_id: str, *, timeout: float | None = None) -> None:
        """Let another runner with the machine's identity take the place of one that is gone for good.

        Only if that one does not run any more: it may still be working without a connection.

        Raises:
            NotFound: There is no machine with this id.
            Conflict: It is connected.
            Forbidden: The token lacks the scope `admin`.
        """
        await self._connection.call(
            "POST", api_path("machines", machine_id, "release"), api.Done, timeout=timeout
        )

    async def limits(self, *, timeout: float | None = None) -> list[api.LimitView]:
        """Return the limits of the namespace, with what is used of each."""
        return (
            await self._connection.call("GET", api_path("limits"), api.LimitsResponse, timeout=timeout)
        ).limits

    async def storage(self, *, timeout: float | None = None) -> StorageReport:
        """Return the size of the hub's database, and what its retention rules would remove.

        Raises:
            Forbidden: The token lacks the scope `admin`, or does not belong to the namespace `default`.
        """
        return await self._connection.call("GET", api_path("storage"), StorageReport, timeout=timeout)

    async def compact(self, *, dry_run: bool = False, timeout: float | None = None) -> StorageReport:
        """Let the hub apply its retention rules and give back free space, which goes on in the background.

        Args:
            dry_run: Change nothing; return what would be removed.

        Raises:
            Forbidden: The token lacks the scope `admin`, or does not belong to the namespace `default`.
        """
        path, body = api_path("storage", "compact"), Compaction(dry_run=dry_run)
        return await self._connection.call("POST", path, StorageReport, body=body, timeout=timeout)

    async def agents(self, *, timeout: float | None = None) -> list[api.AgentView]:
        """Return the agents of all connected machines, and on which of them each is available."""
        return (
            await self._connection.call("GET", api_path("agents"), api.AgentsResponse, timeout=timeout)
        ).agents

    async def conversations(
        self,
        machine_id: str,
        agent: str,
        *,
        directory: str | None = None,
        limit: int = 100,
        timeout: float | None = None,
    ) -> list[StoredConversation]:
        """Return the conversations that an agent has stored on a machine, the one used last first.

        `session_id` of a conversation is set if it is a session already. `adopt` turns one into a session.

        Args:
            machine_id: The machine to ask.
            agent: The name of the agent.
            directory: Return only conversations in this directory.
            limit: Return at most this many.

        Raises:
            MachineOffline: The machine is not connected.
            NotCapable: The agent cannot list its conversations.
        """
        path = api_path("machines", machine_id, "conversations")
        query = {"agent": agent, "directory": directory, "limit": limit}
        answer = await self._connection.call(
            "GET", path, api.ConversationsResponse, query=query, timeout=timeout
        )
        return answer.conversations

    async def foreign_sessions(
        self, machine_id: str, *, timeout: float | None = None
    ) -> list[ForeignSessionView]:
        """Return the sessions that a machine has and the hub never had, the one used last first.

        Raises:
            MachineOffline: The machine is not connected.
            NotCapable: Its runner is too old.
        """
        path = api_path("machines", machine_id, "foreign-sessions")
        return (await self._connection.call("GET", path, ForeignSessionsResponse, timeout=timeout)).sessions

    async def adopt_foreign_session(
        self, machine_id: str, session_id: str, *, timeout: float | None = None
    ) -> api.SessionView:
        """Make a session that only its machine knows a session of this namespace. It goes on as it is.

        Raises:
            NotFound: There is no such session.
            MachineOffline: The machine is not connected.
        """
        path = api_path("machines", machine_id, "foreign-sessions", session_id, "adopt")
        return (await self._connection.call("POST", path, api.SessionResponse, timeout=timeout)).session

    async def end_foreign_session(
        self, machine_id: str, session_id: str, *, timeout: float | None = None
    ) -> None:
        """Stop the agent of a session that only its machine knows, and delete it there.

        Raises:
            NotFound: There is no such session.
        """
        path = api_path("machines", machine_id, "foreign-sessions", session_id)
        await self._connection.call("DELETE", path, api.Done, timeout=timeout)

    async def usage(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        group_by: api.UsageGrouping = "day",
        session_id: str | None = None,
        timeout: float | None = None,
    ) -> api.UsageResponse:
        """Return tokens and cost as the agents have reported them.

        Args:
            since: The first day, as YYYY-MM-DD in UTC.
            until: The last day.
            group_by: What each group of the answer stands for.
            session_id: Count only this session.
        """
        query = {"from": since, "to": until, "groupBy": group_by, "sessionId": session_id}
        return await self._connection.call(
            "GET", api_path("usage"), api.UsageResponse, query=query, timeout=timeout
        )

    async def online_users(self, *, timeout: float | None = None) -> list[api.OnlineUser]:
        """Return the users who are connected to the live events of the namespace."""
        path = api_path("online-users")
        return (await self._connection.call("GET", path, api.OnlineUsersResponse, timeout=timeout)).users

    async def tokens(self, *, timeout: float | None = None) -> list[api.TokenView]:
        """Return all access tokens, without their secrets."""
        return (
            await self._connection.call("GET", api_path("tokens"), api.TokensResponse, timeout=timeout)
        ).tokens

    async def create_token(
        self,
        label: str,
        *,
        namespace: str | None = None,
        scopes: Sequence[str] | None = None,
        expires_in: int | None = None,
        timeout: float | None = None,
    ) -> api.TokenCreated:
        """Create an access token. Its `secret` is in this answer only; the hub stores a hash.

        Args:
            label: What the token is for.
            namespace: The namespace it belongs to. Defaults to the caller's; only the owner may name another.
            scopes: What it may do. Defaults to `read`, `write` and `approve`.
            expires_in: Its lifetime in seconds, at most ten years. None means unlimited. A token ends with the one that
                created it, at the latest.

        Raises:
            Forbidden: The caller may not create such a token.
        """
        body = api.NewToken(
            label=label,
            namespace=namespace,
            scopes=None if scopes is None else list(scopes),
            expires_in=expires_in,
        )
        return await self._connection.call(
            "POST", api_path("tokens"), api.TokenCreated, body=body, timeout=timeout
        )

    async def revoke_token(self, token_id: str, *, timeout: float | None = None) -> None:
        """Revoke an access token and all tokens created with it, and close the connections that use them.

        Raises:
            NotFound: There is no such token.
        """
        await self._connection.call("DELETE", api_path("tokens", token_id), api.Done, timeout=timeout)

    async def create_pairing(
        self,
        label: str | None = None,
        *,
        scopes: Sequence[str] | None = None,
        expires_in: int | None = None,
        timeout: float | None = None,
    ) -> api.PairingCreated:
        """Make a code that gives another device a token of its own. It works once, for ten minutes.

        Args:
            label: What the device's token is called.
            scopes: What it may do. Defaults to `read`, `write`, `approve` and `files`, as far as the caller has them.
            expires_in: The lifetime of the device's token in seconds. None means unlimited.

        Raises:
            Forbidden: The caller may not create such a token.
            Conflict: Too many pairings are open.
        """
        body = api.NewPairing(
            label=label, scopes=None if scopes is None else list(scopes), expires_in=expires_in
        )
        return await self._connection.call(
            "POST", api_path("pairings"), api.PairingCreated, body=body, timeout=timeout
        )

    async def pairings(self, *, timeout: float | None = None) -> list[api.PairingView]:
        """Return the pairings that no device has redeemed yet."""
        return (
            await self._connection.call("GET", api_path("pairings"), api.PairingsResponse, timeout=timeout)
        ).pairings

    async def cancel_pairing(self, pairing_id: str, *, timeout: float | None = None) -> None:
        """Make the code of a pairing worthless.

        Raises:
            NotFound: A device has redeemed it, or it has expired.
        """
        await self._connection.call("DELETE", api_path("pairings", pairing_id), api.Done, timeout=timeout)
