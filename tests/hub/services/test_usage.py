"""Usage is counted once, and stays whatever happens to the session."""

import sqlite3
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farsteer.core import events as ev
from farsteer.core.api import UsageGroup, UsageResponse
from farsteer.core.commands import Create
from farsteer.core.errors import BadRequest, NotFound
from farsteer.core.events import Entry, Role
from farsteer.core.wire import encode
from farsteer.hub import Hub
from farsteer.hub.rules import log as log_rules
from farsteer.hub.services import usage as usage_module
from farsteer.hub.services.usage import UsageReports
from farsteer.hub.store.sqlite.schema import MIGRATIONS
from farsteer.hub.store.sqlite.usage import install
from farsteer.link.messages import Call, EncodedEntry, Events, Reply
from tests.hub.conftest import OWNER_TOKEN, create
from tests.hub.scripted import ScriptedRunner, caller

ME = caller()
DAY_MS = 86_400_000


def used(tokens: int, turn: str | None = "t1", model: str | None = "sonnet", **more: Any) -> ev.UsageUpdate:
    return ev.UsageUpdate(turn_id=turn, model=model, output_tokens=tokens, **more)


def by_key(report: UsageResponse) -> dict[str | None, UsageGroup]:
    return {group.key: group for group in report.groups}


async def spend_on(runner: ScriptedRunner, session_id: str, at: int, update: ev.UsageUpdate) -> None:
    """Append a usage update that the machine's clock dates `at`."""
    log = runner.logs[session_id]
    log.add(update)
    seq = log.state.seq
    entry = Entry(id=f"{session_id}:{seq}", seq=seq, role=Role.AGENT, created_at=at, content=update)
    log.entries[-1] = EncodedEntry(seq, "usage_update", msgspec.Raw(encode(entry)))
    await runner.send(Events(session=session_id, entries=log.entries[-1:], state=log.state))
    await runner.wait_until(lambda: runner.acked.get(session_id, 0) >= seq)


async def test_tokens_and_cost_add_up_by_turn_and_model(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.append(
        session_id,
        used(10, cost_usd=0.1, input_tokens=1),
        used(5, cost_usd=0.2, cache_read_tokens=7),
        used(3, model="haiku", cache_write_tokens=2),
        used(2, turn="t2"),
    )
    report = await hub.usage.report(ME, group_by="turn", session_id=session_id)
    turns = by_key(report)
    assert [group.key for group in report.groups] == ["t2", "t1"], "newest first"
    first = turns["t1"]
    assert (first.input_tokens, first.output_tokens) == (1, 18)
    assert (first.cache_read_tokens, first.cache_write_tokens) == (7, 2)
    assert first.cost_usd == 0.3
    assert (report.total.turns, report.total.output_tokens) == (2, 20)
    models = by_key(await hub.usage.report(ME, group_by="model"))
    assert models["sonnet"].output_tokens == 17
    assert models["sonnet"].turns == 2
    assert models["haiku"].turns == 1
    assert (await hub.sessions.get(ME, session_id)).usage.output_tokens == 20


async def test_what_arrives_twice_is_counted_once(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    await runner.append(session_id, used(10))
    log = runner.logs[session_id]
    log.add(used(1))
    for _ in range(2):
        await runner.send(Events(session=session_id, entries=[*log.entries], state=log.state))
    await runner.ping()
    await runner.wait_until(lambda: runner.acked[session_id] == log.state.seq)
    await runner.ping()
    assert (await hub.usage.report(ME)).total.output_tokens == 11


async def test_every_grouping_has_the_same_total(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    other = await create(hub, runner)
    await runner.append(session_id, used(10, cost_usd=1.0))
    await runner.append(other, used(4, turn="t2", cost_usd=2.0))
    sessions = await hub.usage.report(ME, group_by="session")
    assert [(group.key, group.output_tokens) for group in sessions.groups] == [(other, 4), (session_id, 10)]
    assert by_key(await hub.usage.report(ME, group_by="agent"))["demo"].cost_usd == 3.0
    assert by_key(await hub.usage.report(ME, group_by="machine"))[runner.info.id].turns == 2
    for grouping in ("day", "model", "session", "agent", "machine"):
        report = await hub.usage.report(ME, group_by=grouping)
        assert report.total == sessions.total
        assert not report.truncated
    assert (await hub.usage.report(ME, session_id=other)).total.output_tokens == 4


async def test_totals_survive_rewinds_cleared_histories_and_restarts(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN)
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
        await runner.append(session_id, used(10, cost_usd=0.5))
        before = await hub.usage.report(ME, group_by="session")
        files = ev.FilesRestored(status=ev.FileRestore.SKIPPED)
        await runner.append(session_id, ev.Rewound(first_seq=1, files=files))
        await hub.store.clear_messages(ME.namespace, session_id, 0)
        assert await hub.usage.report(ME, group_by="session") == before
    await hub.close()
    hub = await Hub.open(home, OWNER_TOKEN)
    assert await hub.usage.report(ME, group_by="session") == before
    await hub.close()


async def test_the_usage_of_a_deleted_session_stays_without_its_id(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    other = await create(hub, runner)
    for id in (session_id, other):
        await runner.append(id, used(10, turn=None), used(1, turn=f"of {id}"))
    before = await hub.usage.report(ME)
    await hub.sessions.delete(ME, session_id)
    await hub.sessions.delete(ME, other)
    assert await hub.usage.report(ME) == before
    (left,) = (await hub.usage.report(ME, group_by="session")).groups
    assert (left.key, left.output_tokens, left.turns) == (None, 22, 2)
    with pytest.raises(NotFound):
        await hub.usage.report(ME, session_id=session_id)
    await runner.send(Events(session=session_id, entries=[runner.logs[session_id].add(used(5))]))
    await runner.ping()
    assert (await hub.usage.report(ME)).total == before.total, "a late writer spends nothing"


async def test_days_are_in_utc_and_both_ends_are_included(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    midnight = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
    for at, tokens in ((midnight - 1, 1), (midnight, 2), (midnight + DAY_MS - 1, 4), (midnight + DAY_MS, 8)):
        await spend_on(runner, session_id, at, used(tokens))

    async def total(first: date | None, last: date | None) -> int:
        return (await hub.usage.report(ME, first=first, last=last)).total.output_tokens

    days = [group.key for group in (await hub.usage.report(ME)).groups]
    assert days == ["2026-03-03", "2026-03-02", "2026-03-01"]
    assert await total(date(2026, 3, 2), date(2026, 3, 2)) == 6
    assert await total(date(2026, 3, 2), None) == 14
    assert await total(None, date(2026, 3, 2)) == 7
    assert await total(date(2026, 4, 1), None) == 0
    began = {group.key: group.turns for group in (await hub.usage.report(ME)).groups}
    assert began == {"2026-03-03": 0, "2026-03-02": 0, "2026-03-01": 1}, "a turn over midnight is one turn"


async def test_usage_of_a_machine_with_a_wrong_clock_is_not_dated_in_the_future(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    for at in (2**62, -(2**62)):
        await spend_on(runner, session_id, at, used(1))
    days = [group.key for group in (await hub.usage.report(ME)).groups]
    assert days[1] == "1970-01-01"
    now = datetime.now(UTC).date()
    assert days[0] in {str(now), str(now - timedelta(days=1))}


async def test_absurd_numbers_neither_stop_the_log_nor_corrupt_the_sums(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.append(
        session_id,
        used(-5),
        used(2**63),
        used(2**62),
        used(1, cost_usd=-1.0),
        used(1, cost_usd=1e300),
        used(0, context_used=5, turn="only looks"),
        used(3, cost_usd=0.25, model="m" * 10_000, turn="long"),
    )
    report = await hub.usage.report(ME, group_by="model")
    assert report.total.output_tokens == 2 * 2**40 + 5
    assert report.total.cost_usd == 0.25
    assert report.total.turns == 2
    assert by_key(report)["m" * 200].output_tokens == 3


async def test_an_update_without_a_model_counts_for_the_sessions_model(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.append(session_id, used(1, model=None))
    await runner.append(session_id, ev.ModeUpdate(model="opus"))
    await runner.append(session_id, used(2, model=None))
    models = by_key(await hub.usage.report(ME, group_by="model"))
    assert {key: group.output_tokens for key, group in models.items()} == {None: 1, "opus": 2}


async def test_usage_before_an_import_is_not_counted(hub: Hub, runner: ScriptedRunner) -> None:
    create_session = runner.answers[Create]
    history: list[Events] = []

    def import_session(call: Call) -> Reply | None:
        reply = create_session(call)
        assert reply is not None
        log = runner.logs[call.session]
        log.add(used(1000, turn=None))
        history.append(Events(session=call.session, entries=log.entries, state=log.state))
        return msgspec.structs.replace(reply, state=log.state, seq=log.state.seq)

    runner.answers[Create] = import_session
    send = runner.send

    async def events_first(message: Any) -> None:
        if isinstance(message, Reply) and history:
            await send(history.pop())
        await send(message)

    runner.send = events_first
    session_id = await create(hub, runner)
    assert (await hub.sessions.get(ME, session_id)).usage.output_tokens == 1000
    assert (await hub.usage.report(ME)).total.output_tokens == 0
    await runner.append(session_id, used(1))
    assert (await hub.usage.report(ME)).total.output_tokens == 1


async def test_groups_are_limited_and_the_total_is_complete(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_module, "MAX_GROUPS", 3)
    await runner.append(
        session_id, *(used(n, turn=str(n), model=f"m{n}", cost_usd=float(n)) for n in range(1, 6))
    )
    turns = await hub.usage.report(ME, group_by="turn", session_id=session_id)
    assert [group.key for group in turns.groups] == ["5", "4", "3"]
    assert turns.truncated
    assert turns.total.turns == 5
    models = await hub.usage.report(ME, group_by="model")
    assert [group.key for group in models.groups] == ["m5", "m4", "m3"], "most expensive first"


async def test_invalid_reports_are_refused(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    with pytest.raises(BadRequest):
        await hub.usage.report(ME, group_by="turn")
    with pytest.raises(BadRequest):
        await hub.usage.report(ME, first=date(2026, 1, 2), last=date(2026, 1, 1))
    await runner.append(session_id, used(1))
    foreign = caller("other")
    with pytest.raises(NotFound):
        await hub.usage.report(foreign, session_id=session_id)
    assert (await hub.usage.report(foreign)).total.output_tokens == 0


async def test_the_logs_of_an_older_hub_are_counted_when_it_is_opened(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN)
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
        await runner.append(session_id, used(10, cost_usd=0.5), ev.AgentMessage(message_id="1", text="hello"))
        before = await hub.usage.report(ME, group_by="session")
    await hub.close()
    with sqlite3.connect(home / "hub.db") as db:
        db.execute("DROP TABLE usage")
        assert MIGRATIONS[2].change is install
        install(db)
    db.close()
    hub = await Hub.open(home, OWNER_TOKEN)
    assert await UsageReports(hub.store).report(ME, group_by="session") == before
    await hub.close()


async def test_a_plain_message_is_stored_without_being_read(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(data: bytes) -> Entry:
        raise AssertionError("this entry concerns nobody here")

    monkeypatch.setattr(log_rules, "decode_entry", read)
    await runner.append(session_id, ev.AgentMessage(message_id="1", text="hello"))
