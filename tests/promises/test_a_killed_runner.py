"""Kill the runner during a turn: no process survives, and the partial answer is kept."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import suppress

import psutil

from farsteer.agents.process.environment import LAUNCH_VARIABLE, LaunchMark
from farsteer.agents.process.posix import read_mark
from farsteer.core import events as ev
from farsteer.core.events import TurnEndReason
from farsteer.core.modes import PermissionMode
from farsteer.runner.orphans import home_id
from tests.promises.station import SECONDS, Station, machine_is
from tests.promises.test_nothing_is_lost import log_of, until_logged
from tests.support.eventually import eventually
from tests.support.processes import is_alive

ESCAPES = "run (setsid sleep 300 >/dev/null 2>&1 &)"
"""A tool that leaves a process behind, in a session of its own and with another parent."""


def marked(home: str) -> list[psutil.Process]:
    """Return living processes of any launch of `home`."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        mark = LaunchMark.parse(read_mark(process.pid) or "")
        if mark is not None and mark.home == home and is_alive(process):
            found.append(process)
    return found


def tools(home: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in marked(home):
        with suppress(psutil.Error):
            if process.name() == "sleep":
                found.append(process)
    return found


def sleeper(mark: LaunchMark) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "300"], env={"PATH": os.environ["PATH"], LAUNCH_VARIABLE: str(mark)})


async def test_nothing_of_a_killed_runner_s_work_lives_on_after_its_restart_but_another_s_does(
    station: Station,
) -> None:
    client = station.client()
    session = await client.start(station.desk, agent="demo", permission_mode=PermissionMode.YOLO)
    await session.send(f"{ESCAPES}\nstubborn")
    await until_logged(client, session.id, ev.AgentMessage)
    home = home_id(station.root / "runner")
    await eventually(lambda: len(tools(home)) == 1)
    (tool,) = tools(home)
    (agent,) = set(marked(home)) - {tool}
    assert os.getsid(tool.pid) == tool.pid
    foreign = sleeper(LaunchMark("another-home", 1, session.id))
    try:
        await station.kill(station.runner)
        await machine_is(client, active=False)
        assert is_alive(agent), "it ignores the end of its input"
        assert is_alive(tool)
        await station.start_runner()
        assert not is_alive(agent)
        assert not is_alive(tool)
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait(SECONDS)
    assert "stubborn" in str(await client.attach(session.id).ask("history"))
    (agent,) = marked(home)
    await session.send(ESCAPES)
    await eventually(lambda: len(tools(home)) == 1)
    agent.kill()
    await eventually(lambda: not tools(home))


async def test_what_a_killed_runner_had_heard_of_an_unfinished_answer_is_in_the_log_once(
    station: Station,
) -> None:
    client = station.client()
    session = await client.start(station.desk, agent="demo")
    async with client.events(session.id, types=["message-delta"]) as events:
        await session.send("slow 15\nslow 400")
        async with asyncio.timeout(SECONDS):
            async for event in events:
                if event.delta is not None and "word30" in event.delta.text:
                    break
    await station.kill(station.runner)
    await station.start_runner()
    await until_logged(client, session.id, ev.TurnEnd)
    contents = [entry.content for entry in await log_of(client, session.id)]
    whole, partial = [content for content in contents if isinstance(content, ev.AgentMessage)]
    assert (whole.text.split()[-1], whole.partial) == ("word15", False)
    assert partial.partial
    words = partial.text.split()
    assert words[:5] == ["word1", "word2", "word3", "word4", "word5"]
    assert partial.message_id != whole.message_id
    (end,) = [content for content in contents if isinstance(content, ev.TurnEnd)]
    assert end.reason is TurnEndReason.LOST
    assert contents.index(partial) < contents.index(end)
