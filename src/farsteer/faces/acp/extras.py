"""What a client brings along for a session: servers of tools, further directories."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from farsteer.core.api import CreateSession, NewMcpServer
from farsteer.core.errors import BadRequest
from farsteer.core.mcp import McpTransport
from farsteer.jsonrpc.messages import as_object


class Extras(NamedTuple):
    servers: tuple[NewMcpServer, ...] = ()
    directories: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.servers or self.directories)

    @classmethod
    def of(cls, params: dict[str, Any]) -> Extras:
        """Raises BadRequest for what is none. No message repeats what may be secret."""
        servers = tuple(_server(given) for given in _list(params, "mcpServers"))
        directories = tuple(_list(params, "additionalDirectories"))
        if not all(isinstance(path, str) and path.startswith("/") for path in directories):
            raise BadRequest("additionalDirectories are absolute paths")
        return cls(servers, directories)

    @property
    def less(self) -> list[Extras]:
        """What to try when an agent cannot be given all of it, the most first."""
        fewer = [Extras(servers=self.servers), Extras(directories=self.directories), Extras()]
        return [one for one in fewer if one != self and (one or self)]

    def added(self, request: CreateSession) -> CreateSession:
        return msgspec.structs.replace(
            request, mcp_servers=[*self.servers], additional_directories=[*self.directories]
        )


def _list(params: dict[str, Any], name: str) -> list[Any]:
    given = params.get(name)
    if given is None:
        return []
    if not isinstance(given, list):
        raise BadRequest(f"{name} is a list")
    return cast("list[Any]", given)


def _server(value: Any) -> NewMcpServer:
    given = as_object(value)
    name = None if given is None else given.get("name")
    if given is None or not isinstance(name, str):
        raise BadRequest("an MCP server is an object with a name")
    try:
        return msgspec.convert(
            {
                "name": name,
                "type": given.get("type", McpTransport.STDIO),
                "command": given.get("command"),
                "args": given.get("args") or [],
                "env": _pairs(given.get("env")),
                "url": given.get("url"),
                "headers": _pairs(given.get("headers")),
            },
            NewMcpServer,
        )
    except (msgspec.ValidationError, TypeError, KeyError):
        raise BadRequest(f"the MCP server {name!r} is not as it should be") from None


def _pairs(given: Any) -> dict[str, Any]:
    """Names with their values; some clients send an object instead of a list."""
    known = as_object(given)
    if known is not None:
        return known
    return {one["name"]: one["value"] for one in cast("list[Any]", given or [])}
