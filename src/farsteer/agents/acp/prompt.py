"""A person's message as the content of a prompt."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from farsteer.agents.acp.protocol import PromptCapabilities
from farsteer.agents.base import Prompt
from farsteer.core.errors import BadRequest
from farsteer.core.queue import Attachment


def prompt_content(prompt: Prompt, can: PromptCapabilities, agent: str) -> list[dict[str, Any]]:
    """Return the text and the attachments. Raises BadRequest for an attachment that the agent does not take."""
    return [text_block(prompt.text), *(_attachment(one, can, agent) for one in prompt.attachments)]


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _attachment(attachment: Attachment, can: PromptCapabilities, agent: str) -> dict[str, Any]:
    if attachment.data is None:
        raise BadRequest(f"attachment {attachment.name} has no content")
    kind = attachment.mime_type.partition("/")[0]
    if (kind == "image" and can.image) or (kind == "audio" and can.audio):
        return {"type": kind, "mimeType": attachment.mime_type, "data": attachment.data}
    try:
        text = base64.b64decode(attachment.data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadRequest(f"{agent} does not accept {attachment.name} ({attachment.mime_type})") from None
    if can.embedded_context:
        resource = {"uri": f"attachment:///{attachment.name}", "mimeType": attachment.mime_type, "text": text}
        return {"type": "resource", "resource": resource}
    return text_block(f"{attachment.name}:\n\n{text}")
