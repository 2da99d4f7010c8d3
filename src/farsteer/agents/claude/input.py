"""A person's message as the content that Claude Code takes."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from farsteer.agents.base import Prompt
from farsteer.core.errors import BadRequest
from farsteer.core.queue import Attachment

_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF = "application/pdf"


def message_content(prompt: Prompt) -> str | list[dict[str, Any]]:
    """Return text and attachments. Raises BadRequest for an attachment that the model does not take."""
    if not prompt.attachments:
        return prompt.text
    blocks = [_attachment(attachment) for attachment in prompt.attachments]
    return [*blocks, {"type": "text", "text": prompt.text}] if prompt.text else blocks


def _attachment(attachment: Attachment) -> dict[str, Any]:
    if attachment.data is None:
        raise BadRequest(f"attachment {attachment.name} has no content")
    source: dict[str, Any] = {"type": "base64", "media_type": attachment.mime_type, "data": attachment.data}
    if attachment.mime_type in _IMAGE_TYPES:
        return {"type": "image", "source": source}
    if attachment.mime_type == _PDF:
        return {"type": "document", "source": source, "title": attachment.name}
    try:
        text = base64.b64decode(attachment.data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadRequest(
            f"Claude Code accepts images, PDF and text files, not {attachment.name} ({attachment.mime_type})"
        ) from None
    source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source, "title": attachment.name}
