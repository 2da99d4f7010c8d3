"""Parsing of request parameters. Every function raises BadRequest or TooLarge for what it cannot accept."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

import msgspec

from farsteer.core.api import MAX_TEXT, CreateSession, NewAttachment, NewMcpServer
from farsteer.core.errors import BadRequest, TooLarge
from farsteer.core.ids import check_id
from farsteer.core.mcp import McpTransport
from farsteer.jsonrpc.messages import as_object

MAX_ATTACHMENTS = 20
MAX_ATTACHMENT_CHARS = 30 * 1024 * 1024
"""Limit of a hub for the base64 data of all attachments of one message."""
_CHECKED_CHARS = 64 * 1024


def parse_session_id(params: dict[str, Any]) -> str:
    session_id = params.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise BadRequest("sessionId is missing")
    return session_id


def parse_cwd(params: dict[str, Any]) -> str:
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not cwd.startswith("/"):
        raise BadRequest("cwd must be an absolute path")
    return cwd


# -- what a session is created with


class SessionSetup(NamedTuple):
    """The MCP servers and additional directories that a client gives to a session."""

    mcp_servers: tuple[NewMcpServer, ...] = ()
    directories: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.mcp_servers or self.directories)

    @property
    def reductions(self) -> list[SessionSetup]:
        """Smaller setups to try if the agent does not support all of this one, in order of preference."""
        smaller: list[SessionSetup] = []
        if self.mcp_servers and self.directories:
            smaller += [self._replace(directories=()), self._replace(mcp_servers=())]
        if not self.is_empty:
            smaller.append(SessionSetup())
        return smaller

    def apply_to(self, request: CreateSession) -> CreateSession:
        return msgspec.structs.replace(
            request, mcp_servers=[*self.mcp_servers], additional_directories=[*self.directories]
        )


def parse_chosen_id(params: dict[str, Any]) -> str | None:
    """Return the id that a client has chosen for a new session: `_meta.farsteer.sessionId`."""
    meta = as_object((as_object(params.get("_meta")) or {}).get("farsteer")) or {}
    chosen = meta.get("sessionId")
    return None if chosen is None else check_id(str(chosen), "_meta.farsteer.sessionId")


def parse_session_setup(params: dict[str, Any]) -> SessionSetup:
    """Error messages name a server but never repeat its settings, which may be secret."""
    servers = tuple(_parse_mcp_server(value) for value in _parse_list(params, "mcpServers"))
    directories = tuple(_parse_list(params, "additionalDirectories"))
    if not all(isinstance(path, str) and path.startswith("/") for path in directories):
        raise BadRequest("additionalDirectories must be absolute paths")
    return SessionSetup(servers, directories)


def _parse_list(params: dict[str, Any], name: str) -> list[Any]:
    value = params.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRequest(f"{name} must be a list")
    return cast("list[Any]", value)


def _parse_mcp_server(value: Any) -> NewMcpServer:
    server = as_object(value)
    name = None if server is None else server.get("name")
    if server is None or not isinstance(name, str):
        raise BadRequest("an MCP server must be an object with a name")
    try:
        return msgspec.convert(
            {
                "name": name,
                "type": server.get("type", McpTransport.STDIO),
                "command": server.get("command"),
                "args": server.get("args") or [],
                "env": _parse_pairs(server.get("env")),
                "url": server.get("url"),
                "headers": _parse_pairs(server.get("headers")),
            },
            NewMcpServer,
        )
    except (msgspec.ValidationError, TypeError, KeyError):
        raise BadRequest(f"the MCP server {name!r} is not valid") from None


def _parse_pairs(value: Any) -> dict[str, Any]:
    """Read ACP's list of `{name, value}` objects. Some clients send one object instead."""
    pairs = as_object(value)
    if pairs is not None:
        return pairs
    return {pair["name"]: pair["value"] for pair in cast("list[Any]", value or [])}


# -- prompts


class PromptContent(NamedTuple):
    text: str
    attachments: list[NewAttachment]


def parse_prompt(blocks: Any) -> PromptContent:
    """Turn content blocks into one text and its attachments."""
    if not isinstance(blocks, list) or not blocks:
        raise BadRequest("prompt must be a list of content blocks")
    text, previous_type = "", ""
    attachments: list[NewAttachment] = []
    for number, block in enumerate(_parse_blocks(blocks)):
        block_type = block.get("type")
        match block_type:
            case "text":
                part = _parse_string(block, "text")
            case "resource_link":
                part = _parse_link(block)
            case "resource":
                part = _parse_resource(block, attachments, number)
            case "image":
                attachments.append(_parse_image(block, number))
                continue
            case _:
                raise BadRequest(f"content of type {block_type!r} is not supported", block=number)
        text += _separator(text, part, previous_type, str(block_type)) + part
        previous_type = str(block_type)
    return _checked_prompt(text, attachments)


def _checked_prompt(text: str, attachments: list[NewAttachment]) -> PromptContent:
    if not text.strip():
        if not attachments:
            raise BadRequest("the prompt is empty")
        # A message needs a text, and none is invented: the names of the attachments stand in for it.
        text = "\n".join(f"[{attachment.name}]" for attachment in attachments)
    if len(text) > MAX_TEXT:
        raise TooLarge(f"a prompt has at most {MAX_TEXT} characters")
    if len(attachments) > MAX_ATTACHMENTS:
        raise TooLarge(f"a prompt has at most {MAX_ATTACHMENTS} attachments")
    if sum(len(attachment.data) for attachment in attachments) > MAX_ATTACHMENT_CHARS:
        raise TooLarge("the attachments of the prompt are too large")
    return PromptContent(text, attachments)


def _separator(text: str, part: str, previous_type: str, block_type: str) -> str:
    """Return what to put between two blocks: a link stays in its sentence, embedded files get lines of their own."""
    if not text or not part:
        return ""
    if "resource" in (previous_type, block_type) or previous_type == block_type == "text":
        return "" if text.endswith("\n") else "\n"
    return "" if text[-1].isspace() or part[0].isspace() or part[0] in ".,;:!?)" else " "


def _parse_blocks(values: Sequence[Any]) -> list[dict[str, Any]]:
    blocks = [as_object(value) for value in values]
    if any(block is None for block in blocks):
        raise BadRequest("a content block must be an object")
    return [block for block in blocks if block is not None]


def _parse_string(block: dict[str, Any], name: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise BadRequest(f"a content block of type {block.get('type')!r} must have a {name}")
    return value


def _parse_link(block: dict[str, Any]) -> str:
    """Return a mention of the file or address, as a person would type it."""
    uri = _parse_string(block, "uri")
    return f"@{_path(uri)}" if uri.startswith("file:") else uri


def _parse_resource(block: dict[str, Any], attachments: list[NewAttachment], number: int) -> str:
    resource = as_object(block.get("resource")) or {}
    uri = _parse_string(resource, "uri")
    if isinstance(resource.get("text"), str):
        # The whole text is sent because the editor's buffer may not be saved to disk yet.
        return f'<context path="{_path(uri)}">\n{resource["text"]}\n</context>'
    name = PurePosixPath(_path(uri)).name or f"resource-{number}"
    attachments.append(_parse_attachment(resource, "blob", name))
    return f"@{_path(uri)}"


def _parse_image(block: dict[str, Any], number: int) -> NewAttachment:
    mime_type = str(block.get("mimeType") or "application/octet-stream")
    name = PurePosixPath(_path(str(block.get("uri") or ""))).name
    extension = mime_type.partition("/")[2].partition("+")[0]
    return _parse_attachment(block, "data", name or f"image-{number}.{extension}")


def _parse_attachment(block: dict[str, Any], field: str, name: str) -> NewAttachment:
    data = block.get(field)
    mime_type = str(block.get("mimeType") or "application/octet-stream")
    if not isinstance(data, str):
        raise BadRequest(f"{name} has no {field}")
    try:
        base64.b64decode(data[:_CHECKED_CHARS], validate=True)  # the hub checks all of it
    except ValueError:
        raise BadRequest(f"{name} is not valid base64") from None
    return NewAttachment(name=name[:200], data=data, mime_type=mime_type[:100])


def _path(uri: str) -> str:
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme in ("file", "") else uri
