"""A person's message with its images and files, as Droid takes it."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from farsteer.agents.base import Prompt
from farsteer.core.errors import BadRequest
from farsteer.core.queue import Attachment

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF = "application/pdf"


def message_params(prompt: Prompt) -> dict[str, Any]:
    """Raises BadRequest for an attachment that Droid cannot take."""
    params: dict[str, Any] = {"text": prompt.text}
    if prompt.message_id:
        # Newer CLIs call the message so, and older ones by a name of their own.
        params["messageId"] = prompt.message_id
    images = [_image(one) for one in prompt.attachments if one.mime_type in _IMAGES]
    files = [_file(one) for one in prompt.attachments if one.mime_type not in _IMAGES]
    if images:
        params["images"] = images
    if files:
        params["files"] = files
    return params


def _image(attachment: Attachment) -> dict[str, Any]:
    return {"type": "base64", "data": _data(attachment), "mediaType": attachment.mime_type}


def _file(attachment: Attachment) -> dict[str, Any]:
    data = _data(attachment)
    if attachment.mime_type == _PDF:
        return {"type": "base64", "mediaType": _PDF, "data": data, "name": attachment.name}
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadRequest(
            f"Droid takes images, PDFs and texts; {attachment.name} ({attachment.mime_type}) is none"
        ) from None
    return {"type": "text", "mediaType": "text/plain", "data": text, "name": attachment.name}


def _data(attachment: Attachment) -> str:
    if attachment.data is None:
        raise BadRequest(f"attachment {attachment.name} has no content")
    return attachment.data
