"""docs/sessions.md is executed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.stack import OWNER, Stack, farsteer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sessions.md").read_text()


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        yield stack


async def test_the_python_example_goes_back_branches_off_and_keeps(stack: Stack) -> None:
    import asyncio

    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    desk = Path(stack.directory())
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-"],
        input=example,
        cwd=desk,
        env={"PATH": "/usr/bin:/bin", "HOME": str(desk), "FARSTEER_HUB": stack.url, "CLI_API_TOKEN": OWNER},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    first, *middle, turns = done.stdout.splitlines()
    assert first == "full"
    assert any("dolphin" in line for line in middle)
    assert turns == "3"
    assert not (desk / "whales.txt").exists()
    assert "remember the dolphin" in (desk / "talk.md").read_text()


async def test_the_commands_converse(stack: Stack) -> None:
    import asyncio

    (example,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    desk = Path(stack.directory())
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = await asyncio.to_thread(
        subprocess.run,
        ["/bin/sh", "-eu"],
        input=example,
        cwd=desk,
        env={"PATH": path, "HOME": str(desk), "FARSTEER_HUB": stack.url, "CLI_API_TOKEN": OWNER},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, second, *log = done.stdout.splitlines()
    assert (first, second) == ("hello", "goodbye")
    assert {"> say hello", "hello", "> say goodbye", "goodbye"} <= {*log}


def test_what_the_page_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([\w./-]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
