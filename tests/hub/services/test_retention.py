"""The retention rules of `hub.toml` remove sessions that nobody uses, and no other."""

import asyncio
from pathlib import Path

import pytest

from farsteer.core import events as ev
from farsteer.core.clock import now_ms
from farsteer.core.commands import Delete
from farsteer.core.errors import BadRequest, Forbidden
from farsteer.hub import Hub, Scope
from tests.hub.conftest import OWNER_TOKEN, create
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller
from tests.support.eventually import eventually

DAY = 86_400_000
ME = caller()


class Calendar:
    def __init__(self) -> None:
        self.now = now_ms()

    def __call__(self) -> int:
        return self.now


async def open_hub(home: Path, rules: str, clock: Calendar) -> Hub:
    (home / "hub.toml").write_text(rules)
    return await Hub.open(home, OWNER_TOKEN, clock=clock)


async def idle(runner: ScriptedRunner, session_id: str) -> None:
    await runner.append(session_id, ev.StatusUpdate(status=ev.SessionStatus.IDLE))


async def test_nothing_is_removed_without_a_rule(home: Path) -> None:
    clock = Calendar()
    hub = await open_hub(home, "", clock)
    async with ScriptedRunner(hub) as runner:
        await create(hub, runner)
        clock.now += 10_000 * DAY
        assert await hub.retention.apply() == []
    await hub.close()


async def test_old_sessions_go_with_a_reason_and_their_runner_is_told(home: Path) -> None:
    clock = Calendar()
    hub = await open_hub(home, "[retention.default]\ndays = 30\n[retention.'*']\ndays = 3000\n", clock)
    async with ScriptedRunner(hub) as runner, ScriptedRunner(hub, "other") as stranger:
        feed = FeedRecorder(hub)
        old, foreign = await create(hub, runner), await create(hub, stranger)
        clock.now += 20 * DAY
        new = await create(hub, runner)
        for machine, session in ((runner, old), (runner, new), (stranger, foreign)):
            await idle(machine, session)
        clock.now += 15 * DAY
        report = await hub.storage.compact(ME, dry_run=True)
        assert [one.session_id for one in report.removals] == [old]
        assert feed.of("session-removed") == []
        report = await hub.storage.compact(ME)
        assert [(one.session_id, one.reason) for one in report.removals] == [(old, "retention_age")]
        [event] = feed.of("session-removed")
        assert (event["sessionId"], event["data"]) == (old, {"reason": "retention_age"})
        await eventually(
            lambda: any(isinstance(call.command, Delete) and call.session == old for call in runner.calls)
        )
        assert [session.id for session in (await hub.sessions.list(ME)).sessions] == [new]
        assert await hub.retention.apply() == []
        with pytest.raises(Forbidden):
            await hub.storage.report(caller("other"))
        with pytest.raises(Forbidden):
            await hub.storage.compact(caller("default", Scope.READ, Scope.WRITE))
    await hub.close()


async def test_the_rules_are_applied_when_the_hub_starts(home: Path) -> None:
    clock = Calendar()
    hub = await open_hub(home, "", clock)
    async with ScriptedRunner(hub) as runner:
        session = await create(hub, runner)
        await idle(runner, session)
    await hub.close()
    clock.now += 3 * DAY
    hub = await open_hub(home, "[retention.'*']\nbytes = 1\n", clock)

    async def is_gone() -> bool:
        return (await hub.sessions.list(ME)).sessions == []

    await eventually(is_gone)
    # Nothing is left to wait for.
    async with asyncio.timeout(3):
        await hub.close()


async def test_a_wrong_rule_is_refused(home: Path) -> None:
    for rules in (
        "[retention.default]\ndays = 0\n",
        "[retention.default]\nweeks = 1\n",
        "[retention]\ndays = 3\n",
    ):
        with pytest.raises(BadRequest, match=r"hub\.toml"):
            await open_hub(home, rules, Calendar())
