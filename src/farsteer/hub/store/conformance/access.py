"""Namespaces are isolated from each other. Machines belong to one, tokens name one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
from msgspec.structs import replace

from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import Conflict, Forbidden, IdentityInUse, NotFound, QuotaExceeded
from farsteer.core.events import SessionStatus
from farsteer.core.ids import OWNER_ID, new_id
from farsteer.hub.rules.lease import LeaseClaim
from farsteer.hub.rules.view import session_view
from farsteer.hub.store.base import AppendStatus, NewDevice, PairingRow, SessionFilter, TokenRow, UsageFilter
from farsteer.hub.store.conformance.harness import (
    KEY,
    LINK,
    NAMESPACE,
    NEXT_LINK,
    OTHER_KEY,
    OTHER_NAMESPACE,
    StoreContracts,
    StoreHarness,
    contract,
    new_item,
    new_machine,
)
from farsteer.hub.store.drafts import NewDraft


class AccessContracts(StoreContracts):
    @contract
    async def test_nothing_of_a_session_is_reachable_from_another_namespace(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session(entries=3)
        item = new_item()
        store, id, other = harness.store, log.session_id, OTHER_NAMESPACE
        await store.accept_item(NAMESPACE, id, item)
        published = len(harness.published)
        attempts: list[Awaitable[object]] = [
            store.get_session(other, id),
            store.read_page(other, id, limit=9, before=None, after=None),
            store.find_rewind_point(other, id, 1),
            store.find_rewind_result(other, id, 1, 1),
            store.clear_messages(other, id, 0),
            store.visible_ranges(other, id, None),
            store.delete_session(other, id),
            store.find_resolution(other, id, "a"),
            store.accept_item(other, id, new_item()),
            store.cancel_item(other, id, item.id),
            store.prioritize_item(other, id, item.id),
            store.report_usage(other, UsageFilter(session_id=id), "day", 9),
        ]
        for attempt in attempts:
            with pytest.raises(NotFound):
                await attempt
        assert await store.list_sessions(other, SessionFilter(), limit=9, after=None) == []
        assert (await store.read_feed(other, 0)).events == []
        assert (await store.read_feed(other, 0, session_id=id)).events == []
        assert len(harness.published) == published
        assert await harness.seqs(log) == [1, 2, 3]

    # -- machines

    @contract
    async def test_a_machine_is_active_while_it_is_connected(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        machine = harness.machine.id
        assert (await harness.store.get_machine(NAMESPACE, machine)).active
        await harness.disconnect()
        assert not (await harness.store.get_machine(NAMESPACE, machine)).active
        row = await harness.store.get_session(NAMESPACE, log.session_id)
        assert not row.reachable
        assert session_view(row).status is SessionStatus.UNREACHABLE
        assert harness.updates_of(log.session_id)[-1] == {
            "partial": True, "status": "unreachable", "active": False, "thinking": False,
        }  # fmt: skip
        await harness.connect()
        assert (await harness.store.get_session(NAMESPACE, log.session_id)).reachable
        assert harness.updates_of(log.session_id)[-1]["status"] == "starting"

    @contract
    async def test_the_end_of_a_replaced_link_disconnects_nothing(self, harness: StoreHarness) -> None:
        await harness.connect(NEXT_LINK)
        await harness.disconnect(LINK)
        assert (await harness.store.get_machine(NAMESPACE, harness.machine.id)).active
        await harness.disconnect(NEXT_LINK)
        assert not (await harness.store.get_machine(NAMESPACE, harness.machine.id)).active

    @contract
    async def test_a_machine_belongs_to_one_namespace(self, harness: StoreHarness) -> None:
        for key in (KEY, OTHER_KEY):
            with pytest.raises(Forbidden):
                await harness.store.enrol_machine(OTHER_NAMESPACE, harness.machine, key)
        with pytest.raises(NotFound):
            await harness.store.connect_machine(OTHER_NAMESPACE, harness.machine, {}, link_id=NEXT_LINK)
        await harness.store.disconnect_machine(OTHER_NAMESPACE, harness.machine.id, link_id=NEXT_LINK)
        assert (await harness.store.get_machine(NAMESPACE, harness.machine.id)).active
        with pytest.raises(NotFound):
            await harness.store.get_machine(OTHER_NAMESPACE, harness.machine.id)
        assert await harness.store.list_machines(OTHER_NAMESPACE) == []
        log = await harness.create_session()
        assert (await harness.append(log, log.add_messages(1))).status is AppendStatus.STORED

    @contract
    async def test_a_machine_keeps_its_key(self, harness: StoreHarness) -> None:
        published = len(harness.published)
        machine = replace(harness.machine, name="forged")
        with pytest.raises(Forbidden) as refused:
            await harness.store.enrol_machine(NAMESPACE, machine, OTHER_KEY)
        with pytest.raises(Forbidden) as foreign:
            await harness.store.enrol_machine(OTHER_NAMESPACE, machine, OTHER_KEY)
        assert refused.value.message == foreign.value.message, "whether another namespace has it is not said"
        stored = await harness.store.get_machine(NAMESPACE, machine.id)
        assert (stored.active, stored.name) == (True, None)
        assert len(harness.published) == published
        await harness.reopen()
        with pytest.raises(Forbidden):
            await harness.store.enrol_machine(NAMESPACE, machine, OTHER_KEY)
        await harness.connect()

    @contract
    async def test_only_an_enrolled_machine_connects(self, harness: StoreHarness) -> None:
        machine = new_machine()
        with pytest.raises(NotFound):
            await harness.store.connect_machine(NAMESPACE, machine, {}, link_id=NEXT_LINK)
        assert [one.id for one in await harness.store.list_machines(NAMESPACE)] == [harness.machine.id]

    @contract
    async def test_machines_are_listed_with_what_they_said_last(self, harness: StoreHarness) -> None:
        other = await harness.connect_another()
        await harness.store.disconnect_machine(NAMESPACE, other.id, link_id=NEXT_LINK)
        agent = AgentInfo(name="demo", title="Demo", available=True, version="1", capabilities=Capabilities())
        harness.machine = replace(harness.machine, agents=(agent,))
        await harness.connect()
        first, second = await harness.store.list_machines(NAMESPACE)
        assert (first.id, first.active, first.agents) == (harness.machine.id, True, (agent,))
        assert (second.id, second.active) == (other.id, False)

    @contract
    async def test_the_problem_of_a_machine_is_told_once_and_ends_with_its_link(
        self, harness: StoreHarness
    ) -> None:
        before = len(harness.published_about(harness.machine.id, "machine-updated"))
        for _ in range(2):
            await harness.store.set_machine_problem(NAMESPACE, harness.machine.id, "the disk is full")
        await harness.store.set_machine_problem(OTHER_NAMESPACE, harness.machine.id, "not yours")
        assert len(harness.published_about(harness.machine.id, "machine-updated")) == before + 1
        assert (await harness.store.get_machine(NAMESPACE, harness.machine.id)).problem == "the disk is full"
        await harness.connect()
        assert (await harness.store.get_machine(NAMESPACE, harness.machine.id)).problem is None

    @contract
    async def test_the_models_of_an_agent_are_told_once(self, harness: StoreHarness) -> None:
        agent = AgentInfo(name="demo", title="Demo", available=True)
        harness.machine = replace(harness.machine, agents=(agent,))
        await harness.connect()
        before = len(harness.published_about(harness.machine.id, "machine-updated"))
        for namespace, models in (
            (NAMESPACE, ("a", "b")),
            (NAMESPACE, ("a", "b")),
            (OTHER_NAMESPACE, ("c",)),
        ):
            await harness.store.set_agent_models(
                namespace, harness.machine.id, {"demo": models, "nobody": ("x",)}
            )
        assert len(harness.published_about(harness.machine.id, "machine-updated")) == before + 1
        found = (await harness.store.get_machine(NAMESPACE, harness.machine.id)).agents
        assert found == (replace(agent, models=("a", "b")),)

    @contract
    async def test_a_connecting_machine_learns_what_is_stored_deleted_and_unknown(
        self, harness: StoreHarness
    ) -> None:
        live, creating = await harness.create_session(entries=3), await harness.begin_session()
        deleted = await harness.create_session()
        await harness.store.delete_session(NAMESPACE, deleted.session_id)
        failed, refused = await harness.begin_session(), await harness.begin_session()
        await harness.store.discard_session(failed.session_id, keep_tombstone=True)
        await harness.store.discard_session(refused.session_id)
        never = new_id()
        logs = (live, creating, deleted, failed, refused)
        named = dict.fromkeys([*(log.session_id for log in logs), never], 0)
        connected = await harness.store.connect_machine(NAMESPACE, harness.machine, named, link_id=NEXT_LINK)
        assert connected.stored_seqs == {live.session_id: 3, creating.session_id: 0}
        assert connected.deleted == [deleted.session_id, failed.session_id]
        assert connected.unknown == [refused.session_id, never]

    @contract
    async def test_one_runner_has_the_lease_of_a_machine(self, harness: StoreHarness) -> None:
        """`rules.decide_lease` decides; here it counts that lease and conflict are stored with the connection."""
        store, machine = harness.store, harness.machine
        await harness.disconnect()
        first = LeaseClaim(instance="a", place="here", boot="1", host="box")
        copy = LeaseClaim(instance="b", place="there", boot="1", host="laptop")

        async def connect(claim: LeaseClaim, link_id: int) -> int:
            return (await store.connect_machine(NAMESPACE, machine, {}, link_id=link_id, claim=claim)).lease

        lease = await connect(first, LINK)
        log = await harness.create_session()
        for is_new in (True, False):
            published = len(harness.published)
            with pytest.raises(IdentityInUse) as refused:
                await connect(copy, NEXT_LINK)
            assert refused.value.is_new == is_new
            assert len(harness.published) == published + is_new
        assert (await harness.append(log, log.add_messages(1))).status is AppendStatus.STORED
        with pytest.raises(Conflict):
            await store.release_machine(NAMESPACE, machine.id)
        await harness.reopen()
        store = harness.store
        view = await store.get_machine(NAMESPACE, machine.id)
        assert view.conflict is not None
        assert view.conflict.host == "laptop"
        with pytest.raises(IdentityInUse):
            await connect(copy, NEXT_LINK)
        assert await connect(first, LINK) == lease
        await store.disconnect_machine(NAMESPACE, machine.id, link_id=NEXT_LINK, released=True)
        with pytest.raises(IdentityInUse):
            await connect(copy, NEXT_LINK)
        await store.disconnect_machine(NAMESPACE, machine.id, link_id=LINK, released=True)
        assert await connect(copy, NEXT_LINK) == lease + 1
        assert (await store.get_machine(NAMESPACE, machine.id)).conflict is None
        await store.disconnect_machine(NAMESPACE, machine.id, link_id=NEXT_LINK)
        with pytest.raises(NotFound):
            await store.release_machine(OTHER_NAMESPACE, machine.id)
        with pytest.raises(IdentityInUse):
            await connect(first, LINK)
        await store.release_machine(NAMESPACE, machine.id)
        assert await connect(first, LINK) == lease + 2

    @contract
    async def test_a_machine_that_is_gone_is_removed_with_its_key(self, harness: StoreHarness) -> None:
        store, machine = harness.store, harness.machine
        with pytest.raises(Conflict):
            await store.remove_machine(NAMESPACE, machine.id)
        log = await harness.create_session()
        await harness.disconnect()
        with pytest.raises(Conflict):
            await store.remove_machine(NAMESPACE, machine.id)
        await store.delete_session(NAMESPACE, log.session_id)
        with pytest.raises(NotFound):
            await store.remove_machine(OTHER_NAMESPACE, machine.id)
        await store.remove_machine(NAMESPACE, machine.id)
        assert await store.list_machines(NAMESPACE) == []
        told = [event.type for event in (await store.read_feed(NAMESPACE, 0)).events]
        assert (told.count("machine-removed"), told.count("machine-updated")) == (1, 0)
        await store.enrol_machine(NAMESPACE, machine, OTHER_KEY)
        named = {log.session_id: 0}
        connected = await store.connect_machine(NAMESPACE, machine, named, link_id=NEXT_LINK)
        assert connected.deleted == [log.session_id]

    # -- quotas

    @contract
    async def test_machines_are_limited_by_namespace(self, harness: StoreHarness) -> None:
        store = harness.store
        with pytest.raises(QuotaExceeded):
            await store.enrol_machine(NAMESPACE, new_machine(), OTHER_KEY, limit=1)
        await store.enrol_machine(NAMESPACE, harness.machine, KEY, limit=1)
        await store.enrol_machine(OTHER_NAMESPACE, new_machine(), OTHER_KEY, limit=1)
        assert (await store.count_totals(NAMESPACE)).machines == 1

    @contract
    async def test_sessions_are_limited_by_namespace(self, harness: StoreHarness) -> None:
        store = harness.store
        live, creating = await harness.create_session(), await harness.begin_session()
        with pytest.raises(QuotaExceeded):
            await store.begin_session(NAMESPACE, harness.new_spec(), limit=2)
        assert (await store.count_totals(NAMESPACE)).sessions == 2
        assert (await store.count_totals(OTHER_NAMESPACE)).sessions == 0
        await store.discard_session(creating.session_id, keep_tombstone=True)
        await store.begin_session(NAMESPACE, harness.new_spec(), limit=2)
        await store.delete_session(NAMESPACE, live.session_id)
        await store.begin_session(NAMESPACE, harness.new_spec(), limit=2)

    # -- tokens

    @contract
    async def test_tokens_are_kept_until_they_are_deleted(self, harness: StoreHarness) -> None:
        first = TokenRow(new_id(), b"1", "first", NAMESPACE, ("read", "write"), created_at=1)
        second = TokenRow(new_id(), b"2", "second", OTHER_NAMESPACE, ("read",), created_at=2, expires_at=9)
        await harness.store.add_token(second)
        await harness.store.add_token(first)
        assert await harness.store.list_tokens() == [first, second]
        await harness.store.record_token_use(first.id, 7)
        assert await harness.store.delete_token(second.id) == [second.id]
        assert await harness.store.delete_token(second.id) == []
        assert await harness.store.list_tokens() == [replace(first, last_used_at=7)]

    @contract
    async def test_a_token_is_deleted_with_all_that_descend_from_it(self, harness: StoreHarness) -> None:
        parent, child, grandchild, sibling = (
            TokenRow(name, name.encode(), name, NAMESPACE, ("admin",), created_at=n, created_by=by)
            for n, (name, by) in enumerate(
                [("parent", OWNER_ID), ("child", "parent"), ("grandchild", "child"), ("sibling", OWNER_ID)]
            )
        )
        for token in (parent, child, grandchild, sibling):
            await harness.store.add_token(token)
        assert await harness.store.list_tokens() == [parent, child, grandchild, sibling]
        assert set(await harness.store.delete_token(parent.id)) == {parent.id, child.id, grandchild.id}
        assert await harness.store.list_tokens() == [sibling]

    @contract
    async def test_a_token_that_is_gone_creates_none(self, harness: StoreHarness) -> None:
        parent = TokenRow(new_id(), b"1", "parent", NAMESPACE, ("admin",), created_at=1, created_by=OWNER_ID)
        child = TokenRow(new_id(), b"2", "child", NAMESPACE, ("read",), created_at=2, created_by=parent.id)
        await harness.store.add_token(parent)
        # Both are under way at once: the store decides in one order.
        await asyncio.gather(harness.store.delete_token(parent.id), _refused(harness.store.add_token(child)))
        assert await harness.store.list_tokens() == []

    # -- drafts

    @contract
    async def test_a_draft_has_a_version_and_belongs_to_a_session(self, harness: StoreHarness) -> None:
        store, log = harness.store, await harness.create_session()
        id, draft = log.session_id, NewDraft(text="x", by="ann", identity=None, client_id="")
        with pytest.raises(NotFound):
            await store.read_draft(OTHER_NAMESPACE, id)
        with pytest.raises(NotFound):
            await store.write_draft(OTHER_NAMESPACE, id, draft, None)
        assert (await store.read_draft(NAMESPACE, id)).version == 0
        written = await store.write_draft(NAMESPACE, id, draft, 0)
        assert (written.text, written.version, written.by) == ("x", 1, "ann")
        with pytest.raises(Conflict):
            await store.write_draft(NAMESPACE, id, draft, 0)
        await store.accept_item(NAMESPACE, id, replace(new_item(), text="y"))
        assert await store.read_draft(NAMESPACE, id) == written
        await store.accept_item(NAMESPACE, id, replace(new_item(), text="x"))
        emptied = await store.read_draft(NAMESPACE, id)
        assert (emptied.text, emptied.version) == ("", 2)
        await harness.reopen()
        assert await harness.store.read_draft(NAMESPACE, id) == emptied

    # -- pairings

    @contract
    async def test_a_pairing_becomes_one_token(self, harness: StoreHarness) -> None:
        store, pairing = harness.store, _new_pairing(b"code")
        await store.add_pairing(pairing, 9)
        assert await store.list_pairings(NAMESPACE) == [pairing]
        assert await store.list_pairings(OTHER_NAMESPACE) == []
        devices = [NewDevice(new_id(), name.encode(), name) for name in ("first", "second")]
        with pytest.raises(Conflict):
            await store.redeem_pairing(b"code", devices[0], 0)
        results = await asyncio.gather(
            *(store.redeem_pairing(b"code", device, 9) for device in devices), return_exceptions=True
        )
        assert isinstance(results[1], NotFound)
        [token] = await store.list_tokens()
        assert results[0] == token
        assert (token.label, token.scopes, token.device) == (pairing.label, pairing.scopes, "first")
        assert token.expires_at == token.created_at + 5
        assert await store.list_pairings(NAMESPACE) == []

    @contract
    async def test_a_pairing_ends_with_the_token_that_made_it(self, harness: StoreHarness) -> None:
        store = harness.store
        parent = TokenRow(new_id(), b"1", "parent", NAMESPACE, ("admin",), created_at=1, created_by=OWNER_ID)
        await store.add_token(parent)
        pairing = _new_pairing(b"code", created_by=parent.id)
        await store.add_pairing(pairing, 9)
        with pytest.raises(NotFound):
            await store.delete_pairing(OTHER_NAMESPACE, pairing.id)
        await store.delete_token(parent.id)
        assert await store.list_pairings(NAMESPACE) == []
        with pytest.raises(NotFound):
            await store.redeem_pairing(b"code", NewDevice(new_id(), b"2", "phone"), 9)
        with pytest.raises(NotFound):
            await store.add_pairing(pairing, 9)

    @contract
    async def test_open_pairings_are_limited_by_namespace(self, harness: StoreHarness) -> None:
        store, first = harness.store, _new_pairing(b"1")
        await store.add_pairing(first, 1)
        with pytest.raises(Conflict):
            await store.add_pairing(_new_pairing(b"2"), 1)
        await store.delete_pairing(NAMESPACE, first.id)
        await store.add_pairing(_new_pairing(b"3"), 1)
        await store.add_pairing(_new_pairing(b"4", namespace=OTHER_NAMESPACE), 1)


def _new_pairing(digest: bytes, *, created_by: str = OWNER_ID, namespace: str = NAMESPACE) -> PairingRow:
    return PairingRow(
        new_id(), digest, "phone", namespace, ("read",), created_at=1, expires_at=2**52, created_by=created_by,
        lifetime=5,
    )  # fmt: skip


async def _refused(attempt: Awaitable[object]) -> None:
    with pytest.raises(NotFound):
        await attempt
