"""A hub with the demo agent, and editors in front of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from farsteer.cli.daemon.in_process import OWNER
from farsteer.client.hub_client import HubClient
from farsteer.faces.acp.server import AcpOptions
from farsteer.faces.in_process_client import InProcessClient
from tests.support.acp_client import Editor, editor_here
from tests.support.stack import Stack, farsteer

Editors = Callable[..., AbstractAsyncContextManager[Editor]]


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        yield stack


@pytest.fixture
def editors(stack: Stack) -> Editors:
    """Makes editors that are connected to the stack and have greeted."""

    @asynccontextmanager
    async def hub() -> AsyncGenerator[HubClient]:
        yield InProcessClient(stack.hub, OWNER)

    @asynccontextmanager
    async def connect(
        options: AcpOptions | None = None, client: dict[str, Any] | None = None, **more: Any
    ) -> AsyncIterator[Editor]:
        async with editor_here(hub, options, **more) as editor:
            await editor.initialize(**(client or {}))
            yield editor

    return connect


@pytest.fixture
async def editor(editors: Editors) -> AsyncIterator[Editor]:
    async with AsyncExitStack() as opened:
        yield await opened.enter_async_context(editors())
