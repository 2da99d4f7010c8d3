"""A person's message with its attachments."""

from __future__ import annotations

from base64 import b64encode

import pytest

from farsteer.agents.base import Prompt
from farsteer.agents.claude.input import message_content
from farsteer.core.errors import BadRequest
from farsteer.core.queue import Attachment


def attachment(mime_type: str, content: bytes | None) -> Attachment:
    data = None if content is None else b64encode(content).decode()
    return Attachment(name="file", mime_type=mime_type, data=data)


def prompt(text: str, *attachments: Attachment) -> Prompt:
    return Prompt(turn_id="turn", text=text, attachments=attachments)


def test_text_alone_is_text() -> None:
    assert message_content(prompt("hello")) == "hello"


def test_images_pdf_and_text_files_come_before_the_text() -> None:
    content = message_content(
        prompt(
            "look", attachment("image/png", b"png"), attachment("application/pdf", b"pdf"),
            attachment("text/x-python", b"print()"),
        )
    )  # fmt: skip
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["image", "document", "document", "text"]
    assert content[0]["source"]["media_type"] == "image/png"
    assert content[2]["source"] == {"type": "text", "media_type": "text/plain", "data": "print()"}
    assert content[2]["title"] == "file"


def test_an_image_needs_no_text() -> None:
    content = message_content(prompt("", attachment("image/webp", b"x")))
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["image"]


@pytest.mark.parametrize(
    "given", [attachment("application/zip", b"\xff\xfe\x00"), attachment("image/png", None)]
)
def test_what_the_model_does_not_take_is_refused(given: Attachment) -> None:
    with pytest.raises(BadRequest, match="file"):
        message_content(prompt("look", given))
