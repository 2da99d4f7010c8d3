"""Scenarios 101 to 107 of the catalogue: programs as senders, nobody there to answer, and what is left running."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from farsteer import AsyncClient
from farsteer.core.events import SessionStatus
from tests.cli.command import start
from tests.promises.station import Station, machine_is
from tests.scenarios import log as read
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import is_alive
from tests.support.stack import farsteer

pytestmark = pytest.mark.slow


async def test_101_a_program_with_a_busy_session_queues_and_does_not_interrupt(home: Path) -> None:
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        session = await stack.create(me)
        await me.say(session, "ask")
        await me.until(session, "waiting")
        # Whoever sends without a wish of its own waits, a program as well as a person.
        item = await me.say(session, "say from a program")

        async def queued() -> bool:
            [waiting] = (await me.get_json(f"/api/sessions/{session}/queue"))["items"]
            return (waiting["id"], waiting["state"]) == (item, "queued")

        await eventually(queued)
        view = await me.session(session)
        assert view["status"] == "waiting", "and it has answered no question by that"
        [approval] = view["approvals"]
        answer = {"answers": {"colour": ["red"]}}
        await me.post_json(f"/api/sessions/{session}/permissions/{approval['id']}/approve", answer)
        await me.until(session, "idle")
        log = await me.messages(session, limit=200)
        assert read.ends(log) == ["end_turn", "end_turn"]
        assert read.answers(log) == ["You chose colour: red.", "from a program"]


async def test_102_unattended_does_not_wait_for_approval(home: Path) -> None:
    """What may be done is decided before: everything (yolo), or nothing that somebody would have to allow in time.

    That `farsteer exec` denies at once when nobody is there: tests/cli/test_exec.py, test_nobody_there_means_no.
    """
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        note = Path(stack.directory()) / "note.txt"
        free = await stack.create(me, yolo=True)
        log = await me.turn(free, "write note.txt hello")
        assert read.of(log, "approval_requested") == []
        assert note.read_text() == "hello\n"
        note.unlink()
        bound = await stack.create(me, permissionTimeout=0.1)
        log = await me.turn(bound, "write note.txt hello")
        assert [event["outcome"] for event in read.of(log, "approval_resolved")] == ["timed_out"]
        assert read.ends(log) == ["end_turn"]
        assert not note.exists(), "no answer never means yes"
        assert (await me.get_json("/api/approvals"))["approvals"] == []


async def test_104_bound_session_deleted(home: Path) -> None:
    """A program that keeps the id of a deleted session is told so, also after restarts, and begins a new one."""
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        bound = await stack.create(me, title="nightly")
        await me.turn(bound, "remember the dolphin")
        await me.delete(f"/api/sessions/{bound}")
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        gone = await me.post(f"/api/sessions/{bound}/messages", json={"text": "again", "localId": "run-2"})
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "not_found")
        new = await stack.create(me, title="nightly")
        assert new != bound
        assert "dolphin" not in read.answers(await me.turn(new, "history"))[-1]
        assert [one["id"] for one in (await me.get_json("/api/sessions"))["sessions"]] == [new]


async def test_105_closed_output_pipe_does_not_create_an_endless_crash_log(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLI_API_TOKEN", "a-token-for-tests-only")
    # Everything is logged, and to a pipe that nobody reads any more.
    monkeypatch.setenv("FARSTEER_DEBUG", "1")
    port = free_port()
    read_end, write_end = os.pipe()
    process = await start("up", "--port", str(port), cwd=project, stderr=write_end, stdout=write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as output:
        async with asyncio.timeout(30):
            while b" is ready at " not in await asyncio.to_thread(output.readline):
                pass
    try:
        async with AsyncClient(f"http://127.0.0.1:{port}", "a-token-for-tests-only") as client:
            session = await client.start(project, agent="demo")
            assert str(await session.ask("say one")) == "one"
            await session.send("crash")

            async def crashed() -> bool:
                return (await session.view()).status is SessionStatus.STOPPED

            await eventually(crashed)
            assert str(await session.ask("say two")) == "two"
        files = {path.name for path in home.rglob("*") if path.is_file()}
        assert not [name for name in files if "log" in name or "crash" in name]
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            code = await process.wait()
    assert code == 0


async def test_106_redelivery_after_restart_ignored(home: Path) -> None:
    """A bridge that was not told in time sends the same message again: it is known by its `localId` for ever."""
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        session = await stack.create(me)
        first = await me.say(session, "say once", localId="im:42")
        await me.until(session, "idle")
        before = read.outcomes(await me.messages(session, limit=200))
        assert before[first][-1] == "delivered"
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        path = f"/api/sessions/{session}/messages"
        again = await me.post_json(path, {"text": "say once", "localId": "im:42"}, 202)
        assert (again["id"], again["state"]) == (first, "delivered")
        log = await me.turn(session, "say twice")
        assert read.answers(log) == ["once", "twice"]
        assert read.outcomes(log)[first] == before[first]


@pytest.mark.slow
async def test_107_hub_exit_leaves_no_children_and_restart_cleans_leftovers_only_its_own(
    tmp_path: Path,
) -> None:
    station = Station(tmp_path, free_port())
    await station.start_hub()
    bystander = await asyncio.create_subprocess_exec("sleep", "300", cwd=station.desk, start_new_session=True)
    try:
        await station.start_runner()
        client = station.client()
        session = await client.start(station.desk, agent="demo", yolo=True)
        # A tool that leaves its session, as daemons do: no signal to the agent's group finds it.
        await session.ask("run setsid sleep 300 >daemon.out 2>&1 </dev/null & echo $! >daemon.pid")
        leftover = psutil.Process(int((station.desk / "daemon.pid").read_text()))
        assert station.runner is not None
        [agent] = psutil.Process(station.runner.pid).children()
        assert is_alive(leftover)
        await station.kill(station.runner)
        await station.start_runner()
        await eventually(lambda: not is_alive(leftover) and not is_alive(agent))
        assert bystander.returncode is None

        await machine_is(client, active=True)
        await session.ask("run setsid sleep 300 >daemon.out 2>&1 </dev/null & echo $! >daemon.pid")
        leftover = psutil.Process(int((station.desk / "daemon.pid").read_text()))
        [agent] = psutil.Process(station.runner.pid).children()
        await station.kill(station.runner, signal.SIGTERM)
        assert not is_alive(leftover)
        assert not is_alive(agent)
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()
        await station.close()
