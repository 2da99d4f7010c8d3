"""docs/worktrees.md is executed."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.runner.worktree_setup import parse_setup
from tests.support.repositories import git, make_repository
from tests.support.stack import OWNER, Stack, farsteer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "worktrees.md").read_text()
EXAMPLES: list[str] = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        yield stack


async def run(stack: Stack, script: str, cwd: Path) -> str:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    identity = {"GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.com"}
    identity |= {"GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.com"}
    done = await asyncio.to_thread(
        subprocess.run,
        ["/bin/sh", "-eu"],
        input=script,
        cwd=cwd,
        env={
            "PATH": path,
            "HOME": str(cwd.parent),
            "FARSTEER_HUB": stack.url,
            "CLI_API_TOKEN": OWNER,
            **identity,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_the_commands_merge_what_an_agent_wrote(stack: Stack) -> None:
    example, _ = EXAMPLES
    project = make_repository(Path(stack.directory()))
    # The example reads what the agent has written, which takes a moment.
    first, rest = example.split("\n", 1)
    wait = 'farsteer send "$id" --wait "say done"\n'
    out = await run(stack, f"{first}\n{wait}{rest}", project)
    assert "1 file against main" in out
    assert "1 commit merged into main" in out
    assert (project / "login.txt").read_text().strip() == "hello"
    assert git(project, "branch", "--list", "farsteer/*") == ""
    assert not (project.parent / "project-worktrees" / "login").exists()


async def test_a_race_compares_its_agents(stack: Stack) -> None:
    project = make_repository(Path(stack.directory()))
    table = (await run(stack, EXAMPLES[1], project)).splitlines()
    assert [line.split()[0] for line in table] == ["AGENT", "demo", "demo", "2"]
    assert all("passed" in line for line in table[1:3])


def test_the_example_of_a_setup_is_one() -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert parse_setup(example.encode()).setup.setup == (("npm", "ci"), ("make", "generated"))


def test_what_the_page_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([\w./-]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
