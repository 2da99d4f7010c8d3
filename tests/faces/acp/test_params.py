"""Parsing of prompts."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from farsteer.core.errors import FarsteerError
from farsteer.faces.acp.params import parse_prompt

PIXEL = base64.b64encode(b"a picture").decode()


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def link(uri: str) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": "it"}


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([text("a"), text("b")], "a\nb"),
        ([text("look at "), link("file:///w/a%20b.py"), text(", please")], "look at @/w/a b.py, please"),
        ([text("look at"), link("https://x.example/y"), text("now")], "look at https://x.example/y now"),
        (
            [
                text("explain"),
                {"type": "resource", "resource": {"uri": "file:///w/c.py", "text": "x = 1"}},
                text("briefly"),
            ],
            'explain\n<context path="/w/c.py">\nx = 1\n</context>\nbriefly',
        ),
    ],
)
def test_text_links_and_files_become_one_text(blocks: list[dict[str, Any]], expected: str) -> None:
    assert parse_prompt(blocks) == (expected, [])


def test_images_and_binary_files_are_attached() -> None:
    content = parse_prompt(
        [
            text("what is this?"),
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "image", "data": PIXEL, "mimeType": "image/svg+xml", "uri": "file:///w/icon.svg"},
            {
                "type": "resource",
                "resource": {"uri": "file:///w/a.pdf", "blob": PIXEL, "mimeType": "application/pdf"},
            },
        ]
    )
    assert content.text == "what is this?\n@/w/a.pdf"
    assert [(one.name, one.mime_type) for one in content.attachments] == [
        ("image-1.png", "image/png"),
        ("icon.svg", "image/svg+xml"),
        ("a.pdf", "application/pdf"),
    ]


def test_the_text_of_a_lone_image_is_its_name() -> None:
    assert parse_prompt([{"type": "image", "data": PIXEL, "mimeType": "image/png"}]).text == "[image-0.png]"


@pytest.mark.parametrize(
    "blocks",
    [
        None,
        [],
        ["text"],
        [text("")],
        [{"type": "text"}],
        [{"type": "audio", "data": PIXEL, "mimeType": "audio/wav"}],
        [{"type": "hologram"}],
        [{"type": "image", "mimeType": "image/png"}],
        [{"type": "image", "data": "not base64!", "mimeType": "image/png"}],
        [{"type": "resource", "resource": {}}],
        [text("x" * 1_000_001)],
        [{"type": "image", "data": PIXEL, "mimeType": "image/png"}] * 21,
    ],
)
def test_an_invalid_prompt_is_refused(blocks: Any) -> None:
    with pytest.raises(FarsteerError) as refused:
        parse_prompt(blocks)
    assert refused.value.status in (400, 413)
