"""Factory's Python SDK drives the demo agent through `farsteer exec` in place of its own CLI."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.vendor.install import SDK, in_ci

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(120)]

CLIENT = Path(__file__).with_name("sdk_client.py")
PYTHON = SDK / "bin" / "python"


@pytest.fixture
def python() -> Path:
    if not (SDK / ".installed").exists():
        missing = "droid-sdk is not installed: run make test-agents"
        if in_ci():
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return PYTHON


@pytest.mark.parametrize("version", ["0.57", "0.215"])
async def test_the_sdk_can_send_answer_resume_fork_and_rewind(
    python: Path, home: Path, tmp_path: Path, version: str
) -> None:
    program, desk = tmp_path / "droid", tmp_path / "desk"
    desk.mkdir()
    command = shlex.join([sys.executable, "-m", "farsteer"])
    program.write_text(f'#!/bin/sh\nexec {command} "$@" --agent demo --droid-version {version}\n')
    program.chmod(0o755)
    running = await asyncio.create_subprocess_exec(
        python, str(CLIENT), str(program), str(desk), stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=dict(os.environ),
        start_new_session=True,
    )  # fmt: skip
    output, errors = await running.communicate()
    assert running.returncode == 0, errors.decode()
    found = json.loads(output)
    said = ["say hello from the SDK", "write made.txt content", "ask"]
    assert (found["plain"], found["write"]) == ("hello from the SDK", "made.txt is done.")
    assert found["permissions"] == ["create"]
    assert "blue" in found["question"], "the last of the options"
    assert found["models"] > 0
    assert found["servers"] == []
    assert found["loaded"] == said, "in a new process"
    assert all(text in found["recalled"] for text in said)
    assert found["forked"] == [*said, "what did I say?"]
    assert found["rewound"] == said[:1]
    assert found["recalled_after"] == f"You said “{said[0]}”."
    assert (len(found["files"]), found["counted"]) == (1, 1)
