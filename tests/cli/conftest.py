from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from farsteer.cli import context
from farsteer.cli.failure import failed
from farsteer.cli.main import MODULES
from farsteer.client.access import HubFile, hub_file
from farsteer.core.errors import FarsteerError
from farsteer.core.wire import encode
from tests.cli.command import Result
from tests.support.stack import OWNER, Stack, farsteer


@pytest.fixture
def desk(home: Path) -> Path:
    """Where the agent works."""
    path = home.parent / "project"
    path.mkdir()
    return path


@pytest.fixture
async def hub(home: Path) -> AsyncIterator[Stack]:
    """A hub that other commands on this home find, as if `farsteer up` ran."""
    async with farsteer(home) as stack:
        (home / "token").write_text(OWNER)
        (home / "token").chmod(0o600)
        hub_file(home).write_bytes(encode(HubFile(url=stack.url, pid=os.getpid())))
        yield stack


Here = Callable[..., Awaitable[Result]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """A command inside this process and its loop: all of it but the start of an interpreter."""
    works: list[Coroutine[Any, Any, int]] = []
    monkeypatch.setattr(context, "run", lambda work: works.append(work) or 0)

    async def call(name: str, *argv: str) -> Result:
        capsys.readouterr()
        try:
            code = import_module(f"farsteer.cli.{MODULES.get(name, name)}").main(argv)
            if works:
                code = await works.pop()
        except FarsteerError as error:
            code = failed(error)
        except SystemExit as error:
            code = int(error.code or 0)
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return call
