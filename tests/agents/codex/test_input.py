"""A person's message and its attachments as the input of a turn."""

from __future__ import annotations

from base64 import b64encode

import pytest

from farsteer.agents.base import Prompt
from farsteer.agents.codex.input import turn_input
from farsteer.core.errors import BadRequest
from farsteer.core.queue import Attachment


def attached(name: str, mime_type: str, data: bytes | None) -> Prompt:
    text = None if data is None else b64encode(data).decode()
    return Prompt(
        turn_id="t", text="hi", attachments=(Attachment(name=name, mime_type=mime_type, data=text),)
    )


def test_a_text_is_one_part() -> None:
    assert turn_input(Prompt(turn_id="t", text="hi")) == [{"type": "text", "text": "hi", "text_elements": []}]


def test_an_image_is_a_data_url() -> None:
    image = turn_input(attached("dot.png", "image/png", b"x"))[1]
    assert image == {"type": "image", "url": "data:image/png;base64,eA=="}


def test_a_text_file_is_a_text_with_its_name() -> None:
    assert turn_input(attached("note.txt", "text/plain", b"a note"))[1]["text"] == "note.txt:\n\na note"


@pytest.mark.parametrize("data", [None, b"\xff\xfe\x00"])
def test_what_codex_does_not_take_is_refused(data: bytes | None) -> None:
    with pytest.raises(BadRequest, match=r"song\.mp3"):
        turn_input(attached("song.mp3", "audio/mpeg", data))


def test_content_that_is_not_base64_is_refused() -> None:
    broken = Attachment(name="note.txt", mime_type="text/plain", data="***")
    with pytest.raises(BadRequest):
        turn_input(Prompt(turn_id="t", text="hi", attachments=(broken,)))
