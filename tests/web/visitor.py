"""A person with a browser, at the page of a hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

from tests.support.daemons import TOKEN

SECONDS = 30.0
_OF_THE_NETWORK = re.compile(
    r"Failed to load resource|WebSocket (?:connection|is closed|is already in CLOSING)|net::ERR_|status of (?:4|5)\d\d"
)

expect.set_options(timeout=SECONDS * 1000)


class Visitor:
    """One browser profile with one page. `problems` has what the page should never cause."""

    def __init__(self, context: BrowserContext, page: Page, url: str) -> None:
        self.context = context
        self.page = page
        self.url = url
        self.problems: list[str] = []
        page.set_default_timeout(SECONDS * 1000)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not _OF_THE_NETWORK.search(message.text):
            self.problems.append(message.text)

    async def sign_in(self, token: str = TOKEN) -> None:
        await self.page.goto(self.url)
        await self.page.get_by_label("Access token").fill(token)
        await self.page.get_by_role("button", name="Sign in").click()
        await self.is_connected()

    async def is_connected(self) -> None:
        await expect(self.page.locator("[data-connection=online]")).to_be_attached()

    async def is_disconnected(self) -> None:
        await expect(self.page.locator("[data-connection=offline]")).to_be_attached()

    async def open(self, session: str) -> None:
        await self.page.goto(f"{self.url}/#/s/{session}")
        await expect(self.composer).to_be_visible()

    async def go(self, screen: str) -> None:
        await self.page.goto(f"{self.url}/#/{screen}")

    @property
    def composer(self) -> Locator:
        return self.page.locator("#composer")

    @property
    def approval(self) -> Locator:
        return self.page.locator("[data-approval]")

    def choice(self, kind: str) -> Locator:
        return self.approval.locator(f"[data-choice={kind}]")

    async def say(self, text: str) -> None:
        await self.composer.fill(text)
        await self.composer.press("Enter")

    def said(self, text: str) -> Locator:
        """The messages of a person in the log with exactly this text."""
        return self.page.locator("[data-speaker=person] .plain").filter(
            has_text=re.compile(rf"^\s*{re.escape(text)}\s*$")
        )

    def answer(self, text: str) -> Locator:
        """The messages of the agent in the log with exactly this text."""
        return self.page.locator("[data-speaker=agent] .markdown").filter(
            has_text=re.compile(rf"^\s*{re.escape(text)}\s*$")
        )

    @property
    def working(self) -> Locator:
        return self.page.locator("[data-working]")

    @property
    def queued(self) -> Locator:
        return self.page.locator("[data-queued]:not(:has-text('Being handed'))")

    @property
    def unsent(self) -> Locator:
        return self.page.locator("[data-unsent]")

    async def is_idle(self) -> None:
        await expect(self.working).to_have_count(0)

    async def stored(self) -> dict[str, str]:
        return await self.page.evaluate("() => ({ ...localStorage })")


async def visit(browser: Browser, url: str, **options: Any) -> Visitor:
    context = await browser.new_context(**options)
    return Visitor(context, await context.new_page(), url)


async def axe(page: Page, root: Path) -> list[str]:
    """Return the serious problems that axe finds."""
    await page.evaluate((root / "web/node_modules/axe-core/axe.min.js").read_text())
    found = await page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
