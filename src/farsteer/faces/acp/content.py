"""What a person puts into a prompt, as a message of ours: one text and what is attached to it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from farsteer.core.api import MAX_TEXT, NewAttachment
from farsteer.core.errors import BadRequest, TooLarge
from farsteer.jsonrpc.messages import as_object

MAX_ATTACHMENTS = 20
MAX_DATA = 30 * 1024 * 1024
"""Characters of base64 that a hub takes with one message."""
_BLOCKS = ("resource",)
"""What stands on lines of its own; the rest runs on as it was typed."""


class Message(NamedTuple):
    text: str
    attachments: list[NewAttachment]


def message(blocks: Any) -> Message:
    """Raises BadRequest or TooLarge for what cannot be sent on."""
    if not isinstance(blocks, list) or not blocks:
        raise BadRequest("a prompt is a list of content blocks")
    text, before = "", ""
    attachments: list[NewAttachment] = []
    for number, block in enumerate(_objects(blocks)):
        kind = block.get("type")
        match kind:
            case "text":
                part = _text(block, "text")
            case "resource_link":
                part = _link(block)
            case "resource":
                part = _resource(block, attachments, number)
            case "image":
                attachments.append(_image(block, number))
                continue
            case _:
                raise BadRequest(f"content of type {kind!r} cannot be sent", block=number)
        text += _gap(text, part, before, str(kind)) + part
        before = str(kind)
    return _checked(text, attachments)


def _checked(text: str, attachments: list[NewAttachment]) -> Message:
    if not text.strip():
        if not attachments:
            raise BadRequest("the prompt is empty")
        # A message has words; these are the ones that the person has given.
        text = "\n".join(f"[{attachment.name}]" for attachment in attachments)
    if len(text) > MAX_TEXT:
        raise TooLarge(f"a prompt has at most {MAX_TEXT} characters")
    if len(attachments) > MAX_ATTACHMENTS:
        raise TooLarge(f"a prompt has at most {MAX_ATTACHMENTS} attachments")
    if sum(len(attachment.data) for attachment in attachments) > MAX_DATA:
        raise TooLarge("the attachments of a prompt are too large")
    return Message(text, attachments)


def _gap(text: str, part: str, before: str, kind: str) -> str:
    """What stands between two blocks: a mention belongs into its sentence, a file's text on lines of its own."""
    if not text or not part:
        return ""
    if before in _BLOCKS or kind in _BLOCKS or (before == kind == "text"):
        return "" if text.endswith("\n") else "\n"
    return "" if text[-1].isspace() or part[0].isspace() or part[0] in ".,;:!?)" else " "


def _objects(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    found = [as_object(block) for block in blocks]
    if any(block is None for block in found):
        raise BadRequest("a content block is an object")
    return [block for block in found if block is not None]


def _text(block: dict[str, Any], name: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise BadRequest(f"a content block of type {block.get('type')!r} has a {name}")
    return value


def _link(block: dict[str, Any]) -> str:
    """A file or an address the agent may look at: named, as a person would name it."""
    uri = _text(block, "uri")
    return f"@{_path(uri)}" if uri.startswith("file:") else uri


def _resource(block: dict[str, Any], attachments: list[NewAttachment], number: int) -> str:
    resource = as_object(block.get("resource")) or {}
    uri = _text(resource, "uri")
    if isinstance(resource.get("text"), str):
        # What the editor shows may not be on the disk yet, so the text itself goes along.
        return f'<context path="{_path(uri)}">\n{resource["text"]}\n</context>'
    name = PurePosixPath(_path(uri)).name or f"resource-{number}"
    attachments.append(_attachment(resource, "blob", name))
    return f"@{_path(uri)}"


def _image(block: dict[str, Any], number: int) -> NewAttachment:
    kind = str(block.get("mimeType") or "application/octet-stream")
    name = PurePosixPath(_path(str(block.get("uri") or ""))).name
    ending = kind.partition("/")[2].partition("+")[0]
    return _attachment(block, "data", name or f"image-{number}.{ending}")


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
