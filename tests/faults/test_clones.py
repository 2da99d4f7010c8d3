"""A copied home: two runners with one identity, in processes of their own."""

from __future__ import annotations

import shutil
import signal
import socket
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from farsteer.cli.commands.doctor import Grade, check_lease
from farsteer.core.queue import ItemState
from tests.support.daemons import Daemon, Daemons
from tests.support.eventually import eventually

pytestmark = pytest.mark.faults

REFUSED = "the hub refuses this machine"
CONNECTED = "This machine is connected"
MESSAGES = 40
HOLD = "run until test -e go; do sleep 0.05; done"


def copy_home(original: Daemon, copy: Daemon) -> None:
    shutil.copytree(original.home, copy.home, ignore=shutil.ignore_patterns("*.lock"))


async def test_a_cloned_home_runs_no_message_twice_and_says_why(tmp_path: Path, free_port: int) -> None:
    async with Daemons(tmp_path, free_port) as daemons:
        first = daemons.runner("first").start()
        await daemons.wait_until_connected()
        sessions = [await daemons.start_session() for _ in range(2)]
        await daemons.say(sessions[0], "before")
        clone = daemons.runner("clone")
        copy_home(first, clone)
        clone.start()
        await clone.wait_for_log(REFUSED)

        names = [f"message-{number}" for number in range(MESSAGES)]
        for session, part in zip(sessions, (names[::2], names[1::2]), strict=True):
            await daemons.say(session, *part)
        assert Counter(daemons.received(first)) == Counter(["before", *names])
        assert daemons.received(clone) == ["before"], "what was copied"

        assert clone.read_log().count(REFUSED) == 1, "it is said once, not with every attempt"
        assert f"from {socket.gethostname()}, since" in clone.read_log()
        await first.wait_for_log("another runner with the identity of this machine, on host")
        machine = await daemons.wait_until_connected()
        assert machine.conflict is not None
        assert machine.conflict.host == socket.gethostname()
        check = check_lease(clone.home)
        assert check is not None
        assert check.grade is Grade.FAIL
        assert check_lease(first.home) is None

        await first.stop()
        await clone.wait_for_log(CONNECTED)
        machine = await daemons.wait_until_connected()
        assert machine.conflict is None
        assert check_lease(clone.home) is None
        await daemons.say(sessions[0], "to the clone")
        assert daemons.received(first).count("to the clone") == 0
        assert daemons.received(clone).count("to the clone") == 1


@pytest.mark.parametrize("killed", [False, True], ids=["running", "killed"])
async def test_a_clone_with_waiting_messages_runs_none_of_them_again(
    tmp_path: Path, free_port: int, *, killed: bool
) -> None:
    async with Daemons(tmp_path, free_port) as daemons:
        client = daemons.client
        first, clone = daemons.runner("first").start(), daemons.runner("clone")
        await daemons.wait_until_connected()
        sessions = [(await client.start(daemons.directory, agent="demo", yolo=True)).id for _ in range(2)]
        names = [f"message-{number}" for number in range(MESSAGES)]
        sent: dict[str, set[str]] = {}
        for session, part in zip(sessions, (names[::2], names[1::2]), strict=True):
            await client.send(session, HOLD)
            sent[session] = {(await client.send(session, f"say {name}", local_id=name)).id for name in part}

        async def all_wait_at_the_runner() -> bool:
            waiting = [one for session in sessions for one in await client.queue(session)]
            return [one.state for one in waiting].count(ItemState.QUEUED) == MESSAGES

        await eventually(all_wait_at_the_runner, 30)
        await eventually(lambda: daemons.received(first) == [HOLD] * 2, 30)
        if killed:
            await first.stop(signal.SIGKILL)
        copy_home(first, clone)
        assert waiting_in_journal(clone) == MESSAGES
        clone.start()
        if killed:
            first.start()
        await clone.wait_for_log(REFUSED)
        (daemons.directory / "go").touch()
        for session, items in sent.items():
            await daemons.wait_until_delivered(session, items)
        assert Counter(daemons.received(first)) == Counter([HOLD, HOLD, *names])

        # The clone gets the machine, and its journal still has all of them.
        await first.stop()
        await clone.wait_for_log(CONNECTED)
        for session in sessions:
            await daemons.say(session, f"to the clone-{session}")
            assert await client.queue(session) == []
        expected = [f"to the clone-{session}" for session in sessions]
        assert Counter(daemons.received(clone)) == Counter([HOLD, HOLD, *expected])
        assert Counter(daemons.received(first)) == Counter([HOLD, HOLD, *names])


def waiting_in_journal(runner: Daemon) -> int:
    """Return how many messages wait in the journal of a runner."""
    with closing(sqlite3.connect(runner.home / "runner.db")) as db:
        [(count,)] = db.execute("SELECT count(*) FROM messages").fetchall()
    return count


async def test_a_killed_runner_gets_in_again_at_once_and_a_copy_of_it_does_not(
    tmp_path: Path, free_port: int
) -> None:
    async with Daemons(tmp_path, free_port) as daemons:
        runner = daemons.runner().start()
        machine = await daemons.wait_until_connected()
        session = await daemons.start_session()
        await runner.stop(signal.SIGKILL)
        runner.start()
        await eventually(lambda: runner.read_log().count(CONNECTED) == 2, 30)
        await daemons.say(session, "after the kill")

        await runner.stop(signal.SIGKILL)
        copy = daemons.runner("copy")
        copy_home(runner, copy)
        copy.start()
        await copy.wait_for_log(REFUSED)
        assert f"farsteer machines release {machine.id}" in copy.read_log()

        async def released() -> bool:
            try:
                await daemons.client.release_machine(machine.id)
            except Exception:
                return False
            return True

        await eventually(released, 30)
        await copy.wait_for_log(CONNECTED)
        await daemons.say(session, "to the copy")
        # The first one comes back, although the owner said that it is gone.
        runner.start()
        await runner.wait_for_log(REFUSED)
        await daemons.say(session, "to the copy again")
        assert "to the copy again" not in daemons.received(runner)


async def test_a_copy_with_a_new_identity_is_another_machine(tmp_path: Path, free_port: int) -> None:
    async with Daemons(tmp_path, free_port) as daemons:
        first = daemons.runner("first").start()
        await daemons.wait_until_connected()
        session = await daemons.start_session()
        clone = daemons.runner("clone", "--new-identity")
        copy_home(first, clone)
        clone.start()
        await clone.wait_for_log(CONNECTED)

        async def both_are_connected() -> bool:
            return len([one for one in await daemons.client.machines() if one.active]) == 2

        await eventually(both_are_connected, 30)
        await daemons.say(session, "to the first")
        assert daemons.received(first) == ["to the first"]
        assert daemons.received(clone) == []
