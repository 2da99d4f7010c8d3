"""The runner's lease: what it keeps, and what becomes of the sessions when another runner had it."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from farsteer.core.session import SessionSpec, SessionState
from farsteer.link.messages import Refused
from farsteer.runner import link_client
from farsteer.runner.lease import RunnerLease, read_lease_file
from farsteer.runner.machine import machine_id, machine_key, renew_identity
from farsteer.runner.runner import Runner
from farsteer.storage.home import HomeLock, prepare_home
from farsteer.storage.place import boot_id, place_of
from tests.runner.harness import SESSION
from tests.runner.test_link_client import ScriptedHub
from tests.support.eventually import eventually

REFUSED = Refused(reason="another runner has it", code="identity_in_use", retry_after=0.01)


async def test_sessions_begin_anew_when_another_runner_had_the_lease(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_client, "_FIRST_DELAY", 0.01)
    runner = await Runner.open(tmp_path / "home")
    spec = SessionSpec(id=SESSION, machine_id="m", directory=str(tmp_path))
    before = await runner.create_session(
        spec, SessionState(id=SESSION, agent="demo", directory=str(tmp_path))
    )
    hub = ScriptedHub()
    running = asyncio.create_task(runner.run(hub.connect))
    link = await hub.welcome(lease=1, protocol=3)
    assert (link.hello.lease, link.hello.newest) == (0, 3)
    await eventually(runner.connected.is_set)
    await link.link.close()
    for _ in range(3):
        hello = await hub.refuse(REFUSED)
        assert (hello.lease, hello.instance) == (1, link.hello.instance)
    assert not runner.lease.may_start
    assert read_lease_file(runner.home).refused == REFUSED.reason
    assert len([record for record in caplog.records if REFUSED.reason in record.message]) == 1
    link = await hub.welcome({SESSION: 7}, lease=3, protocol=3)
    await eventually(runner.connected.is_set)
    after = runner.actor(SESSION)
    assert after is not None
    assert after is not before
    assert after.state.seq >= 7
    assert runner.lease.may_start
    assert (read_lease_file(runner.home).generation, read_lease_file(runner.home).refused) == (3, None)
    await link.link.close()
    link = await hub.welcome({SESSION: after.state.seq}, lease=3, protocol=3)
    await eventually(runner.connected.is_set)
    assert runner.actor(SESSION) is after, "a reconnection changes nothing"
    await link.link.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await runner.close()


def test_a_place_survives_a_restart_and_not_a_copy(tmp_path: Path) -> None:
    home = prepare_home(tmp_path / "home")
    lock = HomeLock(home, "runner")
    place = lock.place
    lock.release()
    os.chmod(home / "runner.lock", 0o400)
    os.chmod(home / "runner.lock", 0o600)
    moved = home.rename(tmp_path / "moved")
    lock = HomeLock(moved, "runner")
    assert lock.place == place
    shutil.copytree(moved, tmp_path / "copy")
    copy = HomeLock(tmp_path / "copy", "runner")
    assert copy.place != place
    lock.release()
    copy.release()


def test_a_file_system_that_knows_no_time_of_creation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.storage.place._birth_time", lambda *_: "")
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    with (tmp_path / "a").open() as a, (tmp_path / "b").open() as b:
        assert place_of(a.fileno()) == place_of(a.fileno()) != place_of(b.fileno())


def test_the_boot_is_known_here() -> None:
    assert boot_id() == boot_id() != ""


def test_a_damaged_lease_file_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "runner.lease").write_bytes(b"\xff")
    assert read_lease_file(tmp_path).generation == 0
    assert RunnerLease(tmp_path).may_start


def test_a_new_identity_replaces_id_and_key(tmp_path: Path) -> None:
    old = machine_id(tmp_path), machine_key(tmp_path).public
    id = renew_identity(tmp_path)
    assert machine_id(tmp_path) == id != old[0]
    assert machine_key(tmp_path).public != old[1]
