"""`run_as`: agents run as another user, who cannot read the home of the runner."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from farsteer.agents.demo import adapter
from farsteer.agents.process.user import AgentUser
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.errors import BadRequest, ErrorCode
from farsteer.core.events import decode_entry
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionType
from farsteer.link.messages import Call, Reply
from farsteer.runner.machine import load_settings
from farsteer.runner.runner import Runner
from tests.support.eventually import eventually
from tests.support.users import NOBODY, OrdinaryUser, ordinary_user

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another user")
NAME = "nobody"


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[OrdinaryUser]:
    """The user of the agents, with a home directory and a Python of its own."""
    if pwd.getpwnam(NAME).pw_uid != NOBODY:
        pytest.skip(f"{NAME} has another uid here")
    with ordinary_user() as user:
        found = SimpleNamespace(
            pw_name=NAME, pw_uid=NOBODY, pw_gid=NOBODY, pw_dir=str(user.home), pw_shell="/bin/sh"
        )
        monkeypatch.setattr(pwd, "getpwnam", lambda _: found)
        monkeypatch.setattr(adapter, "ARGV", (user.python, *adapter.ARGV[1:]))
        yield user


@pytest.fixture
async def runner(home: Path, user: OrdinaryUser) -> AsyncIterator[Runner]:
    (home / "runner.toml").write_text(f'run_as = "{NAME}"\n')
    (home / "secret").write_text("a credential")
    runner = await Runner.open(home)
    yield runner
    await runner.close()


async def create(runner: Runner, directory: Path, **fields: Any) -> tuple[str, Reply]:
    id = new_id()
    spec = SessionSpec(
        id=id,
        machine_id="m",
        directory=str(directory),
        agent="demo",
        permission_mode=PermissionMode.YOLO,
        **fields,
    )
    return id, await runner.handle(Call(id=1, session=id, command=commands.Create(spec=spec)))


async def run(runner: Runner, session: str, command: str) -> None:
    """Let the agent run a shell command, and wait for the end of the turn."""
    item = QueueItem(id=new_id(), text=f"run {command}", created_at=1)
    reply = await runner.handle(Call(id=2, session=session, command=commands.Send(item=item)))
    assert reply.error is None
    actor = runner.actor(session)
    assert actor is not None

    async def ended() -> bool:
        entries = await runner._journal.unconfirmed(session, 0)
        return any(isinstance(decode_entry(bytes(one.body)).content, ev.TurnEnd) for one in entries)

    await eventually(ended, 30)


def make_project(user: OrdinaryUser) -> Path:
    """Make a repository with one commit that belongs to the user."""
    project = user.home / "project"
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    environment = {**os.environ, "HOME": str(user.home)}
    subprocess.run([*user.prefix, "mkdir", str(project)], check=True)
    for argv in (("init", "-q", "."), (*identity, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run([*user.prefix, "git", *argv], cwd=project, check=True, env=environment)
    return project


@needs_root
@pytest.mark.slow
async def test_an_agent_runs_as_the_other_user_and_cannot_read_the_home(
    runner: Runner, user: OrdinaryUser
) -> None:
    project = make_project(user)
    session, reply = await create(runner, project)
    assert reply.error is None
    script = f"(id -u; id -G; env; cat {runner.home}/secret {runner.home}/machine.key) > seen 2>&1"
    await run(runner, session, script)
    seen = (project / "seen").read_text()
    lines = seen.splitlines()
    assert lines[:2] == [str(NOBODY), str(NOBODY)]
    assert {f"HOME={user.home}", f"USER={NAME}", f"LOGNAME={NAME}"} <= {*lines}
    assert seen.count("Permission denied") == 2
    assert "a credential" not in seen
    assert "FARSTEER_RUN_AS" not in seen
    assert (project / "seen").stat().st_uid == NOBODY


@needs_root
@pytest.mark.slow
async def test_every_process_of_the_other_user_is_ended_with_its_session(
    runner: Runner, user: OrdinaryUser
) -> None:
    project = make_project(user)
    session, _ = await create(runner, project)
    await run(runner, session, "setsid sleep 300 >/dev/null 2>&1 & echo $! > pid; echo $PPID > agent")
    left = [int((project / name).read_text()) for name in ("pid", "agent")]
    assert all(psutil.Process(pid).uids().real == NOBODY for pid in left)
    await runner.delete_session(session)
    await eventually(lambda: not any(psutil.pid_exists(pid) for pid in left))


@needs_root
@pytest.mark.slow
async def test_a_worktree_belongs_to_the_other_user(runner: Runner, user: OrdinaryUser) -> None:
    project = make_project(user)
    _, reply = await create(runner, project, session_type=SessionType.WORKTREE, worktree_name="mine")
    assert reply.error is None, reply.logs
    assert (user.home / "project-worktrees" / "mine").stat().st_uid == NOBODY


@needs_root
@pytest.mark.slow
async def test_a_directory_that_the_other_user_cannot_enter_is_refused(
    runner: Runner, user: OrdinaryUser, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    _, reply = await create(runner, closed)
    assert reply.error is not None
    assert f"user {NAME}" in reply.error.message
    assert str(closed) in reply.error.message


@needs_root
@pytest.mark.slow
async def test_what_the_other_user_wrote_is_not_read_by_the_runner(runner: Runner) -> None:
    listed = await runner.handle(Call(id=1, session="", command=commands.ListConversations(agent="demo")))
    assert listed.error is not None
    assert listed.error.code is ErrorCode.NOT_CAPABLE


@pytest.mark.parametrize(("name", "said"), [("no-such-user", "no user"), ("root", "do not run as root")])
async def test_a_user_who_cannot_run_agents_is_refused_at_start(home: Path, name: str, said: str) -> None:
    (home / "runner.toml").write_text(f'run_as = "{name}"\n')
    assert load_settings(home).run_as == name
    with pytest.raises(BadRequest, match=said):
        await Runner.open(home)


async def test_a_runner_without_root_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BadRequest, match="only root can run agents as nobody"):
        AgentUser.find("nobody")
