"""A hub, a runner and a browser for each test. Every test fails if the page writes an error."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, async_playwright

from tests.support.daemons import Daemons
from tests.web.visitor import Visitor, visit

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip

NewVisitor = Callable[..., Awaitable[Visitor]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.web)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture
async def farsteer(tmp_path: Path, free_port: int) -> AsyncGenerator[Daemons]:
    """A hub and a runner, apart, so that each can be killed."""
    async with Daemons(tmp_path, free_port) as daemons:
        daemons.runner().start()
        await daemons.wait_until_connected()
        yield daemons


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncGenerator[Browser]:
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=FLAGS, env={**os.environ, "HOME": str(tmp_path)}
        )
        try:
            yield started
        finally:
            await started.close()


@pytest.fixture
async def new_visitor(farsteer: Daemons, browser: Browser) -> AsyncGenerator[NewVisitor]:
    """Opens a browser profile of its own at the page. It is signed in, unless `sign_in` is False."""
    visitors: list[Visitor] = []

    async def new(*, sign_in: bool = True, **options: Any) -> Visitor:
        visitor = await visit(browser, farsteer.url, **options)
        visitors.append(visitor)
        if sign_in:
            await visitor.sign_in()
        return visitor

    yield new
    assert [problem for visitor in visitors for problem in visitor.problems] == []


@pytest.fixture
async def visitor(new_visitor: NewVisitor) -> Visitor:
    return await new_visitor()


@pytest.fixture
async def session(farsteer: Daemons, visitor: Visitor) -> str:
    """A session of the demo agent, which the visitor has opened."""
    created = await farsteer.start_session()
    await visitor.open(created)
    return created
