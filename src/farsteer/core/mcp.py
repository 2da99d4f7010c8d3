"""MCP servers (Model Context Protocol) that a client configures for its session."""

from __future__ import annotations

from enum import StrEnum

from farsteer.core.wire import WireStruct


class McpTransport(StrEnum):
    STDIO = "stdio"
    """A program that the agent starts on its own machine."""
    HTTP = "http"
    SSE = "sse"


class McpServer(WireStruct):
    """An MCP server: `command` for a local program, `url` for a remote one. `env` and `headers` may hold secrets."""

    name: str
    type: McpTransport = McpTransport.STDIO
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        """Show name and type only: environment, headers, arguments and URL may hold secrets."""
        return f"McpServer({self.name!r}, {self.type.value})"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("name", self.name), ("type", self.type.value)]

    @property
    def without_secrets(self) -> McpServer:
        """Name and type only. This is the form that the hub stores and shows."""
        return McpServer(name=self.name, type=self.type)


def restore_secrets(wanted: tuple[McpServer, ...], known: tuple[McpServer, ...]) -> tuple[McpServer, ...]:
    """Return `wanted` with each server that has no secrets replaced by the one of the same name in `known`.

    A server without secrets that is not in `known` is left out.
    """
    whole = {server.name: server for server in known}
    found = (server if server.command or server.url else whole.get(server.name) for server in wanted)
    return tuple(server for server in found if server is not None)


def find_fault(servers: tuple[McpServer, ...]) -> str | None:
    """Return a message about the first invalid server, or None if all are valid."""
    seen: set[str] = set()
    for server in servers:
        if server.name in seen:
            return f"two MCP servers are named {server.name!r}"
        seen.add(server.name)
        if server.type is McpTransport.STDIO and not server.command:
            return f"the MCP server {server.name!r} has no command"
        if server.type is not McpTransport.STDIO and not server.url:
            return f"the MCP server {server.name!r} has no url"
    return None
