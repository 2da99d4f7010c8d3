"""A session that only its machine knows is adopted or ended once, and by nobody who only names it."""

from __future__ import annotations

import json
from collections.abc import Awaitable

from farsteer.core import events as ev
from farsteer.core.errors import FarsteerError, NotFound, QuotaExceeded
from farsteer.core.foreign import HeldSession
from farsteer.core.ids import new_id
from farsteer.core.session import SessionSpec
from farsteer.hub.store.base import SessionFilter
from farsteer.hub.store.conformance.harness import (
    NAMESPACE,
    NEXT_LINK,
    OTHER_NAMESPACE,
    LogBuilder,
    StoreContracts,
    StoreHarness,
    contract,
)


async def _named(harness: StoreHarness) -> LogBuilder:
    """Let the machine name a session that the store never had."""
    log = LogBuilder(new_id(), seq=5)
    await harness.connect(NEXT_LINK, confirmed={log.session_id: 5})
    return log


def _adopt(
    harness: StoreHarness,
    log: LogBuilder,
    *,
    namespace: str = NAMESPACE,
    machine_id: str | None = None,
    limit: int | None = None,
) -> Awaitable[None]:
    machine = machine_id or harness.machine.id
    spec = SessionSpec(id=log.session_id, machine_id=machine, directory="/work")
    held = HeldSession(spec=spec, state=log.state, confirmed=log.state.seq)
    return harness.store.adopt_session(namespace, held, limit=limit)


async def _fails(work: Awaitable[None], kind: type[FarsteerError] = NotFound) -> bool:
    try:
        await work
    except kind:
        return True
    return False


class ForeignSessionContracts(StoreContracts):
    @contract
    async def test_an_adopted_log_begins_with_one_notice(self, harness: StoreHarness) -> None:
        log = await _named(harness)
        assert await harness.store.list_foreign_sessions(NAMESPACE, harness.machine.id) == [log.session_id]
        await _adopt(harness, log)
        await _adopt(harness, log)
        assert await harness.store.list_foreign_sessions(NAMESPACE, harness.machine.id) == []
        assert await harness.seqs(log) == [5]
        added, notice = harness.published_about(log.session_id)
        assert added.type == "session-added"
        content = json.loads(notice.data)["message"]["content"]
        assert (content["kind"], content["code"]) == ("notice", "entry_lost")
        await harness.crash()
        await harness.connect(confirmed={log.session_id: 5})
        await harness.append(log, log.add_messages(2))
        await harness.append(log, [log.add(ev.TurnStart(turn_id="t"))], state=True)
        assert await harness.seqs(log) == [5, 6, 7, 8]

    @contract
    async def test_an_ended_one_leaves_a_tombstone(self, harness: StoreHarness) -> None:
        log = await _named(harness)
        await harness.store.end_foreign_session(NAMESPACE, harness.machine.id, log.session_id)
        assert await harness.store.list_foreign_sessions(NAMESPACE, harness.machine.id) == []
        assert await _fails(_adopt(harness, log))
        assert not await harness.store.is_session_id_unused(log.session_id)
        found = await harness.store.connect_machine(
            NAMESPACE, harness.machine, {log.session_id: 5}, link_id=NEXT_LINK + 1
        )
        assert found.deleted == [log.session_id]
        assert found.unknown == []

    @contract
    async def test_what_exists_anywhere_is_not_foreign(self, harness: StoreHarness) -> None:
        known = await harness.create_session(entries=1)
        deleted = await harness.create_session(entries=1)
        await harness.store.delete_session(NAMESPACE, deleted.session_id)
        thief = await harness.connect_another(namespace=OTHER_NAMESPACE)
        claims = {known.session_id: 1, deleted.session_id: 1}
        await harness.store.connect_machine(OTHER_NAMESPACE, thief, claims, link_id=9)
        assert await harness.store.list_foreign_sessions(OTHER_NAMESPACE, thief.id) == []
        for log in (known, deleted):
            assert await _fails(_adopt(harness, log, namespace=OTHER_NAMESPACE, machine_id=thief.id))
            assert await _fails(harness.store.end_foreign_session(OTHER_NAMESPACE, thief.id, log.session_id))
        assert (await harness.store.get_session(NAMESPACE, known.session_id)).machine_id == harness.machine.id

    @contract
    async def test_only_its_machine_and_namespace_can_have_it(self, harness: StoreHarness) -> None:
        log = await _named(harness)
        other = await harness.connect_another(7)
        assert await _fails(_adopt(harness, log, namespace=OTHER_NAMESPACE))
        assert await _fails(_adopt(harness, log, machine_id=other.id))
        assert await harness.store.list_foreign_sessions(OTHER_NAMESPACE, harness.machine.id) == []
        await _adopt(harness, log)
        assert await _fails(_adopt(harness, log, machine_id=other.id))

    @contract
    async def test_adopting_keeps_the_limit_of_sessions(self, harness: StoreHarness) -> None:
        log = await _named(harness)
        await harness.create_session()
        assert await _fails(_adopt(harness, log, limit=1), QuotaExceeded)
        rows = await harness.store.list_sessions(NAMESPACE, SessionFilter(), limit=10, after=None)
        assert log.session_id not in {row.id for row in rows}
