"""A person's message as the input of a turn."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from farsteer.agents.base import Prompt
from farsteer.core.errors import BadRequest
from farsteer.core.queue import Attachment

_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def turn_input(prompt: Prompt) -> list[dict[str, Any]]:
    """Return the text and the attachments. Raises BadRequest for an attachment that Codex does not take."""
    return [_text(prompt.text), *map(_attachment, prompt.attachments)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "text_elements": []}


def _attachment(attachment: Attachment) -> dict[str, Any]:
    if attachment.data is None:
        raise BadRequest(f"attachment {attachment.name} has no content")
    if attachment.mime_type in _IMAGE_TYPES:
        return {"type": "image", "url": f"data:{attachment.mime_type};base64,{attachment.data}"}
    try:
        text = base64.b64decode(attachment.data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadRequest(
            f"Codex accepts images and text files, not {attachment.name} ({attachment.mime_type})"
        ) from None
    return _text(f"{attachment.name}:\n\n{text}")
