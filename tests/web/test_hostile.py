"""What agents, files and people write is shown, and never runs, loads or hides anything."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from playwright.async_api import Request, expect

from tests.support.daemons import Daemons
from tests.web.visitor import Visitor

HOSTILE = (
    "<img src=x onerror=\"document.title='run'\"> "
    "<script>document.title='run'</script>"
    "<svg onload=\"document.title='run'\"><script>document.title='run'</script></svg>"
    "<iframe srcdoc=\"<script>parent.document.title='run'</script>\"></iframe>"
    '<style>body{display:none}</style><form action="https://evil.example/"><button>go</button></form>'
    '<a href="javascript:document.title=1">link</a> [md](javascript:alert(1)) [data](data:text/html,x) '
    '<math><mtext></form><form><mglyph><style></math><img src onerror="document.title=1">'
    '<div id="root" style="position:fixed;inset:0">cover</div> ![pixel](https://evil.example/pixel.png)'
)
ESCAPES = "\x1b]0;taken\x07\x1b[2J\x1b[31mred\x1b[0m\x1b]8;;https://evil.example\x07link\x1b]8;;\x07 a\u202eb\u200bc"


@pytest.fixture
def requests(visitor: Visitor) -> list[str]:
    """Every address that the page asks for after it has signed in."""
    seen: list[str] = []

    def note(request: Request) -> None:
        seen.append(request.url)

    visitor.page.on("request", note)
    return seen


async def nothing_ran(visitor: Visitor, requests: list[str]) -> None:
    assert "Farsteer" in await visitor.page.title()
    assert all(url.startswith((visitor.url, "data:", "blob:")) for url in requests), requests
    for tag in (
        "script:not([src])",
        "iframe",
        "form[action]",
        "style",
        "math",
        "object",
        "embed",
        "base",
        "meta[http-equiv]",
    ):
        assert await visitor.page.locator(f".log {tag}").count() == 0, tag
    links = await visitor.page.locator(".log a").evaluate_all(
        "all => all.map((one) => one.getAttribute('href'))"
    )
    assert all(link is None or link.startswith(("https://", "http://", "mailto:")) for link in links), links
    hidden = await visitor.page.evaluate("() => getComputedStyle(document.body).display")
    assert hidden != "none"
    # The policy refuses a `style` already while DOMPurify parses what it will remove.
    refusals = "Applying inline style violates the following Content Security Policy"
    assert [problem for problem in visitor.problems if not problem.startswith(refusals)] == []
    # HTML that was not cleaned would be refused, with an error in the console.
    refused = await visitor.page.evaluate(
        "() => { try { document.createElement('div').innerHTML = '<b>x</b>'; return false } catch { return true } }"
    )
    assert refused
    visitor.problems.clear()


async def test_html_and_markdown_of_an_agent(visitor: Visitor, session: str, requests: list[str]) -> None:
    await visitor.say(f"say {HOSTILE}")
    await expect(visitor.page.locator("[data-speaker=agent]")).to_contain_text("link")
    await visitor.is_idle()
    await nothing_ran(visitor, requests)
    # The person's own message is text.
    await expect(visitor.page.locator("[data-speaker=person]")).to_contain_text("<script>")


async def test_html_in_code_titles_and_approvals(
    farsteer: Daemons, visitor: Visitor, session: str, requests: list[str]
) -> None:
    await visitor.say(f"title {HOSTILE[:180]}")
    await visitor.is_idle()
    await visitor.say("say ```html\\n<script>document.title='run'</script>\\n```")
    await visitor.is_idle()
    name = "<img src=x onerror=document.title=1>.svg"
    await visitor.say(f"write {name.replace(' ', '_')} <svg onload=alert(1)>")
    await expect(visitor.approval).to_contain_text("<svg onload=alert(1)>")
    await visitor.choice("allow").click()
    await visitor.is_idle()
    await nothing_ran(visitor, requests)
    assert any("onerror" in path.name for path in farsteer.directory.iterdir())


async def test_escapes_in_the_output_of_a_command(
    farsteer: Daemons, visitor: Visitor, session: str, requests: list[str]
) -> None:
    (farsteer.directory / "escapes").write_text(ESCAPES)
    await visitor.say("run cat escapes")
    await visitor.choice("allow").click()
    output = visitor.page.locator(".terminal pre")
    await expect(output).to_have_text("redlink abc")
    await expect(output.locator(".fg-red")).to_have_text("red")
    await visitor.is_idle()
    await nothing_ran(visitor, requests)


async def test_an_svg_that_is_attached(
    visitor: Visitor, session: str, requests: list[str], tmp_path: Path
) -> None:
    svg = tmp_path / "'\"><img src=x onerror=alert(1)>.svg"
    svg.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>'
    )
    await visitor.page.locator("input[type=file]").set_input_files(svg)
    await expect(visitor.page.locator(".composer .attachments li")).to_contain_text("onerror")
    # An SVG is never drawn, a picture is.
    await expect(visitor.page.locator(".composer .attachments img")).to_have_count(0)
    png = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    (tmp_path / "dot.png").write_bytes(png)
    await visitor.page.locator("input[type=file]").set_input_files(tmp_path / "dot.png")
    await expect(visitor.page.locator(".composer .attachments img")).to_have_count(1)
    await visitor.say("say files")
    await expect(visitor.answer("files")).to_be_visible()
    await nothing_ran(visitor, requests)
