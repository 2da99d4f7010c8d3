"""A hub with the demo agent, and editors that are connected to it."""

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
from tests.support.acp_client import Editor, in_process_editor
from tests.support.stack import Stack, farsteer

Editors = Callable[..., AbstractAsyncContextManager[Editor]]


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        yield stack


@pytest.fixture
def editors(stack: Stack) -> Editors:
    """Returns a function that connects an editor to the stack and initializes it."""

    @asynccontextmanager
    async def open_hub() -> AsyncGenerator[HubClient]:
        yield InProcessClient(stack.hub, OWNER)

    @asynccontextmanager
    async def connect(
        options: AcpOptions | None = None, client: dict[str, Any] | None = None, **more: Any
    ) -> AsyncIterator[Editor]:
        async with in_process_editor(open_hub, options, **more) as editor:
            await editor.initialize(**(client or {}))
            yield editor

    return connect


@pytest.fixture
async def editor(editors: Editors) -> AsyncIterator[Editor]:
    async with AsyncExitStack() as opened:
        yield await opened.enter_async_context(editors())
