"""Servers of tools (Model Context Protocol) that a client brings along for its session."""

from __future__ import annotations

from enum import StrEnum

from farsteer.core.wire import WireStruct


class McpTransport(StrEnum):
    STDIO = "stdio"
    """A program that the agent starts on its machine."""
    HTTP = "http"
    SSE = "sse"


class McpServer(WireStruct):
    """`command` for a program, `url` for a server elsewhere. What `env` and `headers` hold may be secret."""

    name: str
    type: McpTransport = McpTransport.STDIO
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        """For logs and tracebacks, where nothing secret belongs; arguments and addresses may hold some too."""
        return f"McpServer({self.name!r}, {self.type.value})"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("name", self.name), ("type", self.type.value)]

    @property
    def without_secrets(self) -> McpServer:
        """That it is there, without anything that opens it: what a hub keeps and shows."""
        return McpServer(name=self.name, type=self.type)


def restore_secrets(wanted: tuple[McpServer, ...], known: tuple[McpServer, ...]) -> tuple[McpServer, ...]:
    """The bare ones of `wanted`, with what is known of them; one that is not known stays out."""
    whole = {server.name: server for server in known}
    found = (server if server.command or server.url else whole.get(server.name) for server in wanted)
    return tuple(server for server in found if server is not None)


def find_fault(servers: tuple[McpServer, ...]) -> str | None:
    """What is wrong with them, if anything."""
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
