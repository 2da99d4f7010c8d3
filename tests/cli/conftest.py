from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from farsteer.cli import context, main
from farsteer.cli.errors import report_error
from farsteer.client.config import HubFile, hub_file
from farsteer.core.errors import FarsteerError
from farsteer.core.wire import encode
from tests.cli.command import Result
from tests.support.stack import OWNER, Stack, farsteer


@pytest.fixture
def project(home: Path) -> Path:
    """The directory that the agent works in."""
    path = home.parent / "project"
    path.mkdir()
    return path


@pytest.fixture
async def hub(home: Path) -> AsyncIterator[Stack]:
    """A hub that other commands on this home directory find, as if `farsteer up` ran."""
    async with farsteer(home) as stack:
        (home / "token").write_text(OWNER)
        (home / "token").chmod(0o600)
        hub_file(home).write_bytes(encode(HubFile(url=stack.url, pid=os.getpid())))
        yield stack


RunCommand = Callable[..., Awaitable[Result]]


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Runs a command in this process and event loop, which is faster than starting an interpreter."""
    coroutines: list[Coroutine[Any, Any, int]] = []
    monkeypatch.setattr(context, "run", lambda work: coroutines.append(work) or 0)

    async def run(name: str, *argv: str) -> Result:
        capsys.readouterr()
        try:
            code = main.run_command(name, argv)
            if coroutines:
                code = await coroutines.pop()
        except FarsteerError as error:
            code = report_error(error)
        except SystemExit as error:
            code = int(error.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
