"""The screens on a desktop and on a phone, light and dark: readable by everybody, and in the README."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.support.daemons import Daemons
from tests.web.conftest import NewVisitor
from tests.web.visitor import Visitor, axe

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
MANY = """
const real = window.fetch;
window.fetch = async (path, options) => {
  const answer = await real(path, options);
  if (!String(path).startsWith("/api/sessions?")) return answer;
  const { sessions: [one] } = await answer.json();
  const sessions = Array.from({ length: 5000 }, (_, n) => ({
    ...one, id: String(n).padStart(8, "0") + "-0000-4000-8000-000000000000",
    title: "Session " + n, updatedAt: one.updatedAt - n,
  }));
  return new Response(JSON.stringify({ sessions, nextCursor: null }));
};
"""
SCREENS = ("", "inbox", "new", "machines", "usage", "settings")


async def furnish(farsteer: Daemons, visitor: Visitor) -> str:
    """Make sessions that look like work, one of which asks something. Returns that one."""
    for title, text in (
        ("Fix the flaky login test", "say The test waits for the mail now."),
        ("Upgrade the parser", "todo"),
    ):
        session = await farsteer.client.start(farsteer.directory, agent="demo", title=title)
        await visitor.open(session.id)
        await visitor.say(text)
        await expect(visitor.page.locator("[data-speaker=agent]")).to_have_count(1)
        await visitor.is_idle()
    session = await farsteer.client.start(farsteer.directory, agent="demo", title="Write release notes")
    await visitor.open(session.id)
    await visitor.say("think What changed since the last release? First the log, then the notes.")
    await expect(visitor.answer("I have thought about it.")).to_be_visible()
    await visitor.is_idle()
    await visitor.say("todo")
    await expect(visitor.answer("Everything on the list is done.")).to_be_visible()
    await visitor.is_idle()
    await visitor.say("write NOTES.md # Release notes")
    await expect(visitor.approval).to_be_visible()
    return session.id


async def fits(page: Page) -> None:
    """Nothing is wider than the screen."""
    width = await page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    assert width <= 0, f"{page.url}: {width} pixels too wide"
    wide = await page.locator(".screen, .log").evaluate_all(
        "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.className)"
    )
    assert wide == [], f"{page.url}: {wide}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", ["desktop", "phone"])
async def test_every_screen_fits_and_is_accessible(
    farsteer: Daemons, new_visitor: NewVisitor, tmp_path: Path, device: str, scheme: str
) -> None:
    options = PHONE if device == "phone" else DESKTOP
    visitor = await new_visitor(sign_in=False, color_scheme=scheme, reduced_motion="reduce", **options)
    await visitor.page.goto(visitor.url)
    await expect(visitor.page.get_by_label("Access token")).to_be_visible()
    problems = await axe(visitor.page, ROOT)
    await visitor.sign_in()
    asking = (
        await furnish(farsteer, visitor) if device == "desktop" else await furnish_by_touch(farsteer, visitor)
    )
    pictures = IMAGES if os.environ.get("UPDATE_IMAGES") else tmp_path
    for screen in (*SCREENS, f"s/{asking}"):
        await visitor.go(screen)
        await expect(visitor.page.locator("h1").first).to_be_visible()
        await expect(visitor.page.locator(".skeleton")).to_have_count(0)
        await fits(visitor.page)
        problems += [f"{screen or 'home'}: {problem}" for problem in await axe(visitor.page, ROOT)]
        name = "session" if "/" in screen else screen or "home"
        if name in ("home", "session"):
            # The temporary directory of the test says nothing to a reader.
            await visitor.page.locator(".session-facts .path bdi, .row-facts bdi").evaluate_all(
                "(all) => { for (const one of all) one.textContent = '~/notes' }"
            )
            picture = pictures / f"page-{name}-{device}-{scheme}.png"
            await visitor.page.screenshot(path=picture, animations="disabled", caret="hide")
            assert picture.stat().st_size > 5000
    assert problems == []


async def furnish_by_touch(farsteer: Daemons, visitor: Visitor) -> str:
    session = await farsteer.client.start(farsteer.directory, agent="demo", title="Write release notes")
    await visitor.open(session.id)
    # Enter begins a line where there is no keyboard: the button sends.
    await visitor.composer.fill("todo")
    await visitor.page.get_by_role("button", name="Send").tap()
    await expect(visitor.answer("Everything on the list is done.")).to_be_visible()
    await visitor.is_idle()
    await visitor.composer.fill("write NOTES.md # Release notes")
    await visitor.page.get_by_role("button", name="Send").tap()
    await expect(visitor.approval).to_be_visible()
    return session.id


async def test_a_phone_answers_with_one_thumb(farsteer: Daemons, new_visitor: NewVisitor) -> None:
    visitor = await new_visitor(**PHONE)
    await furnish_by_touch(farsteer, visitor)
    await visitor.go("inbox")
    button = visitor.choice("allow")
    box = await button.bounding_box()
    assert box is not None
    assert box["height"] >= 40
    await button.tap()
    await expect(visitor.page.get_by_text("Nothing waits for you")).to_be_visible()
    assert (farsteer.directory / "NOTES.md").read_text() == "# Release notes\n"


async def test_keys_and_the_palette_lead_everywhere(farsteer: Daemons, visitor: Visitor) -> None:
    created = await farsteer.client.start(farsteer.directory, agent="demo", title="Find me by name")
    await expect(visitor.page.locator(f"[data-session='{created.id}']")).to_be_visible()
    keys = visitor.page.keyboard
    await keys.press("?")
    await expect(visitor.page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert await axe(visitor.page, ROOT) == []
    await keys.press("Escape")
    await keys.press("i")
    await expect(visitor.page.get_by_role("heading", name="Inbox")).to_be_visible()
    await keys.press("Control+k")
    await visitor.page.get_by_role("combobox").fill("by name")
    await keys.press("Enter")
    await expect(visitor.page.get_by_role("heading", name="Find me by name")).to_be_visible()
    assert visitor.page.url.endswith(created.id)


async def test_chinese_and_the_dark_theme_are_kept(visitor: Visitor) -> None:
    await visitor.go("settings")
    await visitor.page.get_by_role("button", name="中文").click()
    await expect(visitor.page.get_by_role("heading", name="设置")).to_be_visible()
    await visitor.page.get_by_role("button", name="深色").click()
    await visitor.page.reload()
    await expect(visitor.page.get_by_role("heading", name="设置")).to_be_visible()
    assert await visitor.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert await visitor.page.evaluate("() => document.documentElement.lang") == "zh-CN"


async def test_many_sessions_are_listed_at_once_and_found(farsteer: Daemons, visitor: Visitor) -> None:
    """The list is windowed: what is not in view is not drawn."""
    view = (await farsteer.client.start(farsteer.directory, agent="demo", title="The only real one")).id
    await expect(visitor.page.locator(f"[data-session='{view}']")).to_be_visible()

    await visitor.page.add_init_script(MANY)
    await visitor.page.reload()
    await expect(visitor.page.get_by_text("Session 1", exact=True).last).to_be_visible()
    assert await visitor.page.locator(".row").count() < 60
    await visitor.page.get_by_label("Search sessions").fill("session 4321")
    await expect(visitor.page.locator(".row")).to_have_count(1)
