"""Retention: what a rule removes is unused at the moment of its removal, and the space is given back."""

from __future__ import annotations

import asyncio
import json

from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind
from farsteer.core.events import SessionStatus
from farsteer.core.retention import RemovalReason, SessionRemoval
from farsteer.hub.store.base import RetainedSession
from farsteer.hub.store.conformance.harness import (
    NAMESPACE,
    OTHER_NAMESPACE,
    LogBuilder,
    StoreContracts,
    StoreHarness,
    contract,
    new_item,
)


async def retained(harness: StoreHarness, log: LogBuilder) -> RetainedSession:
    sessions = await harness.store.list_retained(NAMESPACE)
    return next(one for one in sessions if one.id == log.session_id)


def removal_of(session: RetainedSession, namespace: str = NAMESPACE) -> SessionRemoval:
    return SessionRemoval(
        namespace=namespace, session_id=session.id, updated_at=session.updated_at, bytes=0, reason=RemovalReason.AGE
    )  # fmt: skip


class RetentionContracts(StoreContracts):
    @contract
    async def test_a_session_in_use_is_busy(self, harness: StoreHarness) -> None:
        working, asking, queued, idle = [await harness.create_session(3) for _ in range(4)]
        await harness.append(
            working, [working.add(ev.StatusUpdate(status=SessionStatus.WORKING))], state=True
        )
        approval = Approval(id="a", kind=ApprovalKind.PERMISSION, title="run it?", created_at=1)
        await harness.append(asking, [asking.add(ev.ApprovalRequested(approval=approval))], state=True)
        await harness.store.accept_item(NAMESPACE, queued.session_id, new_item())
        await harness.append(idle, [idle.add(ev.StatusUpdate(status=SessionStatus.IDLE))], state=True)
        await harness.begin_session()
        assert await harness.store.list_namespaces() == [NAMESPACE]
        assert await harness.store.list_retained(OTHER_NAMESPACE) == []
        assert len(await harness.store.list_retained(NAMESPACE)) == 4
        for log in (working, asking, queued):
            session = await retained(harness, log)
            assert session.busy
            assert await harness.store.remove_unused(removal_of(session)) is None
        session = await retained(harness, idle)
        assert (session.busy, session.seq) == (False, 4)
        assert await harness.store.remove_unused(removal_of(session, OTHER_NAMESPACE)) is None
        assert await harness.store.remove_unused(removal_of(session)) == harness.machine.id
        [event] = harness.published_about(idle.session_id, "session-removed")
        assert json.loads(event.data)["data"] == {"reason": "retention_age"}
        assert await harness.store.remove_unused(removal_of(session)) is None

    @contract
    async def test_a_session_that_was_used_since_stays(self, harness: StoreHarness) -> None:
        log = await harness.create_session(3)
        await harness.append(log, [log.add(ev.StatusUpdate(status=SessionStatus.IDLE))], state=True)
        session = await retained(harness, log)
        await asyncio.sleep(0.002)
        await harness.append(log, log.add_messages(1))
        assert await harness.store.remove_unused(removal_of(session)) is None
        assert (await retained(harness, log)).seq == 5

    @contract
    async def test_the_bytes_of_a_log_are_those_of_its_entries(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        before = await harness.store.measure_session(log.session_id)
        await harness.append(log, [log.add(ev.AgentMessage(message_id="m", text="x" * 100_000))])
        assert 100_000 < await harness.store.measure_session(log.session_id) - before < 101_000
        fork, _ = await harness.fork(log)
        assert await harness.store.measure_session(fork.session_id) > 100_000

    @contract
    async def test_the_space_of_deleted_sessions_is_given_back(self, harness: StoreHarness) -> None:
        empty = (await harness.store.measure()).bytes
        logs = [await harness.create_session() for _ in range(5)]
        for log in logs:
            await harness.append(log, [log.add(ev.AgentMessage(message_id="m", text="x" * 2_000_000))])
        assert (await harness.store.measure()).bytes > 10_000_000
        for log in logs:
            await harness.store.delete_session(NAMESPACE, log.session_id)
        await harness.store.compact()
        async with asyncio.timeout(20):
            while True:
                size = await harness.store.measure()
                if not size.compacting:
                    break
                await asyncio.sleep(0.01)
        assert (size.free_bytes, size.needs_rewrite) == (0, False)
        assert size.bytes < empty + 1_000_000
