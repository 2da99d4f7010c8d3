"""The documentation page is complete, needs no scripts and loads nothing."""

import base64
import hashlib
import re
import shlex
from html import unescape
from html.parser import HTMLParser
from typing import cast

import msgspec

from farsteer.faces.events.sse import EventStreams
from farsteer.faces.rest.activity import event_endpoints
from farsteer.faces.rest.app import TABLE
from farsteer.faces.rest.docs_page import CSP, render
from farsteer.faces.rest.openapi import document

ADDRESS = "https://farsteer.example.com"
PAGE = render(document((*TABLE, *event_endpoints(cast("EventStreams", None))), ADDRESS))


class Elements(HTMLParser):
    """Checks that elements are nested correctly, and collects ids and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), "no script"
            assert name not in ("style", "src"), "nothing that the policy forbids"
            if name == "id":
                assert value not in self.ids
                self.ids.add(value or "")
            if name == "href":
                self.links.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_valid_html_without_external_resources() -> None:
    elements = Elements()
    elements.feed(PAGE)
    assert not elements.open
    assert not elements.tags & {"script", "link", "img", "iframe", "object", "form"}
    assert {
        link.removeprefix("#") for link in elements.links - {"/openapi.json", "/asyncapi.json"}
    } <= elements.ids


def test_the_policy_allows_only_its_own_style() -> None:
    style = re.search(r"<style>(.*?)</style>", PAGE, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert CSP.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")


def test_the_first_steps_have_the_address_of_the_hub() -> None:
    assert f"<pre>HUB={ADDRESS}\n" in PAGE


def test_every_endpoint_is_shown() -> None:
    for endpoint in TABLE:
        assert f'id="{endpoint.handler.__name__}"' in PAGE
        assert endpoint.summary.replace("'", "&#x27;") in PAGE


def test_every_curl_command_can_be_parsed_by_a_shell() -> None:
    commands = [unescape(text) for text in re.findall(r"<pre>(curl .*?)</pre>", PAGE, re.DOTALL)]
    assert len(commands) == len(TABLE) + 1
    for command in commands:
        words = shlex.split(command)
        assert words[:2] == ["curl", "-sS"]
        assert any(word.startswith("$HUB/") for word in words)
        if "-d" in words:
            assert msgspec.json.decode(words[words.index("-d") + 1])


def test_text_of_the_document_is_escaped() -> None:
    hostile = document(TABLE)
    hostile["info"]["description"] = "<script>alert(1)</script>"
    assert "<script>" not in render(hostile)
