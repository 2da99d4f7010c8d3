"""A hub and a runner of different versions, as processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.skew.releases import RELEASES, Release, SourceMissing, extract
from tests.support.daemons import THIS_VERSION, Daemons

pytestmark = pytest.mark.faults
EACH_RELEASE = pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)


@pytest.fixture
def source(release: Release, tmp_path: Path) -> Path:
    directory = tmp_path / "releases"
    directory.mkdir()
    try:
        return extract(release, directory)
    except SourceMissing as missing:
        pytest.skip(str(missing))


async def _check(daemons: Daemons, runner_source: Path, versions: tuple[str, str]) -> None:
    """Talk to a session while either side is restarted, and check that nothing is lost or repeated."""
    hub, runner = daemons.hub, daemons.runner(source=runner_source).start()
    machine = await daemons.wait_until_connected()
    assert ((await daemons.client.health()).version, machine.version) == versions
    session = await daemons.start_session()
    await daemons.say(session, "1", "2", "3")
    await hub.stop()
    hub.start()
    await daemons.wait_until_connected()
    await daemons.say(session, "4", "5")
    await runner.stop()
    waiting = {(await daemons.client.send(session, f"say {name}", local_id=name)).id for name in ("6", "7")}
    runner.start()
    await daemons.wait_until_delivered(session, waiting)
    await daemons.say(session, "8")
    assert daemons.received(runner) == [str(number) for number in range(1, 9)]


@EACH_RELEASE
async def test_this_hub_works_with_a_runner_of_a_release(
    release: Release, source: Path, tmp_path: Path, free_port: int
) -> None:
    async with Daemons(tmp_path, free_port) as daemons:
        await _check(daemons, source, (_this_version(), release.version))


@EACH_RELEASE
async def test_this_runner_works_with_a_hub_of_a_release(
    release: Release, source: Path, tmp_path: Path, free_port: int
) -> None:
    async with Daemons(tmp_path, free_port, hub_source=source) as daemons:
        await _check(daemons, THIS_VERSION, (release.version, _this_version()))


@EACH_RELEASE
async def test_hub_and_runner_of_a_release_are_updated_one_after_the_other(
    release: Release, source: Path, tmp_path: Path, free_port: int
) -> None:
    async with Daemons(tmp_path, free_port, hub_source=source) as daemons:
        runner = daemons.runner(source=source).start()
        await daemons.wait_until_connected()
        session = await daemons.start_session()
        await daemons.say(session, "old")
        for daemon in (daemons.hub, runner):
            await daemon.stop()
            daemon.start(THIS_VERSION)
            await daemons.wait_until_connected()
            await daemons.say(session, f"{daemon.home.name} is new")
        assert daemons.received(runner) == ["old", "hub is new", "runner is new"]


def _this_version() -> str:
    from farsteer import __version__

    return __version__
