"""What a person puts into a prompt, as a message of ours: one text and what is attached to it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from farsteer.core.api import MAX_TEXT, NewAttachment
from farsteer.core.errors import BadRequest
from farsteer.rpc.messages import fields


class Message(NamedTuple):
    text: str
    attachments: list[NewAttachment]


def message(blocks: Any) -> Message:
    """Raises BadRequest for what cannot be sent on."""
    if not isinstance(blocks, list) or not blocks:
        raise BadRequest("a prompt is a list of content blocks")
    texts: list[str] = []
    attachments: list[NewAttachment] = []
    for number, block in enumerate(_objects(blocks)):
        match block.get("type"):
            case "text":
                texts.append(_text(block, "text"))
            case "resource_link":
                texts.append(_link(block))
            case "resource":
                texts.append(_resource(block, attachments, number))
            case "image" | "audio":
                attachments.append(_media(block, number))
            case other:
                raise BadRequest(f"content of type {other!r} cannot be sent", block=number)
    text = "\n".join(part for part in texts if part) or "(see the attachments)"
    if len(text) > MAX_TEXT:
        raise BadRequest(f"a prompt has at most {MAX_TEXT} characters")
    return Message(text, attachments)


def _objects(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    found = [fields(block) for block in blocks]
    if any(block is None for block in found):
        raise BadRequest("a content block is an object")
    return [block for block in found if block is not None]


def _text(block: dict[str, Any], name: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise BadRequest(f"a {block.get('type')} block has a {name}")
    return value


def _link(block: dict[str, Any]) -> str:
    """A file or an address the agent may look at: named, as a person would name it."""
    uri = _text(block, "uri")
    return f"@{_path(uri)}" if uri.startswith("file://") else uri


def _resource(block: dict[str, Any], attachments: list[NewAttachment], number: int) -> str:
    resource = fields(block.get("resource")) or {}
    uri = _text(resource, "uri")
    if isinstance(resource.get("text"), str):
        # What the editor shows may not be on the disk yet, so the text itself goes along.
        return f'<context path="{_path(uri)}">\n{resource["text"]}\n</context>'
    name = PurePosixPath(_path(uri)).name or f"resource-{number}"
    attachments.append(_attachment(resource, "blob", name))
    return f"@{_path(uri)}"


def _media(block: dict[str, Any], number: int) -> NewAttachment:
    kind = str(block.get("mimeType") or "application/octet-stream")
    name = PurePosixPath(_path(str(block.get("uri") or ""))).name
    ending = kind.partition("/")[2].partition("+")[0]
    return _attachment(block, "data", name or f"{block['type']}-{number}.{ending}")


def _attachment(block: dict[str, Any], field: str, name: str) -> NewAttachment:
    data = block.get(field)
    kind = str(block.get("mimeType") or "application/octet-stream")
    if not isinstance(data, str):
        raise BadRequest(f"{name} has no {field}")
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        raise BadRequest(f"{name} is not valid base64") from None
    return NewAttachment(name=name[:200], data=data, mime_type=kind[:100])


def _path(uri: str) -> str:
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme in ("file", "") else uri
