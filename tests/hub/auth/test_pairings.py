"""Pairings: a code that another device redeems once for a token of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.core.api import AuthRequest, NewPairing, NewToken, RedeemPairing
from farsteer.core.errors import BadRequest, Conflict, Forbidden, NotFound, RateLimited, Unauthorized
from farsteer.hub import Caller, Hub, Scope
from farsteer.hub.auth import pairings
from farsteer.hub.store.sqlite.schema import MIGRATIONS
from farsteer.storage.migrations import migrate
from tests.hub.auth.test_tokens import FakeClock, make_admin, sign_in
from tests.hub.conftest import OWNER_TOKEN

ADDRESS = "10.0.0.9"
TEN_MINUTES = 600_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def hub(home: Path, clock: FakeClock) -> AsyncIterator[Hub]:
    hub = await Hub.open(home, OWNER_TOKEN, clock=clock)
    yield hub
    await hub.close()


@pytest.fixture
async def owner(hub: Hub) -> Caller:
    return await sign_in(hub, OWNER_TOKEN)


def redemption(code: str, label: str = "a phone") -> RedeemPairing:
    return RedeemPairing(code=code, label=label)


async def test_a_device_gets_a_token_of_its_own(hub: Hub, owner: Caller) -> None:
    made = await hub.pairings.create(owner, NewPairing(label="phone", scopes=["read"]))
    assert [open_one.id for open_one in (await hub.pairings.list(owner)).pairings] == [made.pairing.id]
    redeemed = await hub.pairings.redeem(redemption(made.code, "Firefox on\x1b a phone"), ADDRESS)
    caller = await sign_in(hub, redeemed.secret)
    assert (caller.namespace, caller.scopes, caller.label, caller.owner) == (
        "default", {Scope.READ}, "phone", False,
    )  # fmt: skip
    [listed] = (await hub.tokens.list(owner)).tokens
    assert (listed.id, listed.created_by) == (redeemed.token.id, "owner")
    assert listed.device is not None
    assert listed.device.startswith("Firefox on")
    assert "\x1b" not in listed.device
    assert (await hub.pairings.list(owner)).pairings == []
    await hub.tokens.revoke(owner, listed.id)
    with pytest.raises(Unauthorized):
        await sign_in(hub, redeemed.secret)


async def test_a_code_works_once(hub: Hub, owner: Caller) -> None:
    made = await hub.pairings.create(owner, NewPairing())
    attempts = [hub.pairings.redeem(redemption(made.code), f"10.0.0.{n}") for n in range(8)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["NotFound"] * 7 + ["TokenCreated"]
    assert len((await hub.tokens.list(owner)).tokens) == 1


async def test_a_code_lives_for_ten_minutes(hub: Hub, owner: Caller, clock: FakeClock) -> None:
    made = [await hub.pairings.create(owner, NewPairing()) for _ in range(2)]
    assert made[0].pairing.expires_at == clock.now + TEN_MINUTES
    clock.now += TEN_MINUTES - 1
    await hub.pairings.redeem(redemption(made[0].code), ADDRESS)
    clock.now += 1
    assert (await hub.pairings.list(owner)).pairings == []
    with pytest.raises(NotFound):
        await hub.pairings.redeem(redemption(made[1].code), ADDRESS)


async def test_a_code_may_be_typed_as_people_type(hub: Hub, owner: Caller) -> None:
    for _ in range(5):
        made = await hub.pairings.create(owner, NewPairing())
        assert len(made.code) == 11
        typed = made.code.replace("-", " ").replace("1", "l").replace("0", "o").lower()
        assert (await hub.pairings.redeem(redemption(f" {typed} "), ADDRESS)).secret


async def test_guesses_are_refused_before_the_code_is_looked_at(hub: Hub, owner: Caller) -> None:
    made = await hub.pairings.create(owner, NewPairing())
    for _ in range(10):
        with pytest.raises(NotFound):
            await hub.pairings.redeem(redemption("AAAAA-AAAAA"), ADDRESS)
    for code in ("AAAAA-AAAAA", made.code):
        with pytest.raises(RateLimited) as refused:
            await hub.pairings.redeem(redemption(code), ADDRESS)
        assert refused.value.details["retryAfter"] > 0
    assert (await hub.pairings.redeem(redemption(made.code), "10.0.0.10")).secret


async def test_a_pairing_gives_no_more_than_its_maker_has(hub: Hub, owner: Caller, clock: FakeClock) -> None:
    admin, token = await make_admin(hub, owner, "admin", expires_in=3600)
    for scopes in (["approve"], ["read", "write"]):
        with pytest.raises(Forbidden):
            await hub.pairings.create(admin, NewPairing(scopes=scopes))
    for scopes in ([], ["everything"]):
        with pytest.raises(BadRequest):
            await hub.pairings.create(admin, NewPairing(scopes=scopes))
    made = await hub.pairings.create(admin, NewPairing(expires_in=10**6))
    redeemed = await hub.pairings.redeem(redemption(made.code), ADDRESS)
    assert redeemed.token.scopes == ("read",), "what it has of the usual scopes"
    assert (redeemed.token.created_by, redeemed.token.expires_at) == (token.id, token.expires_at)
    made = await hub.pairings.create(admin, NewPairing(expires_in=60))
    redeemed = await hub.pairings.redeem(redemption(made.code), ADDRESS)
    assert redeemed.token.expires_at == clock.now + 60_000


async def test_a_pairing_needs_admin_and_stays_in_its_namespace(hub: Hub, owner: Caller) -> None:
    made = await hub.tokens.create(owner, NewToken(label="writer", scopes=["read", "write"]))
    writer = await sign_in(hub, made.secret)
    with pytest.raises(Forbidden):
        await hub.pairings.create(writer, NewPairing())
    with pytest.raises(Forbidden):
        await hub.pairings.list(writer)
    other = await sign_in(hub, f"{OWNER_TOKEN}:other")
    pairing = await hub.pairings.create(other, NewPairing())
    assert (await hub.pairings.list(owner)).pairings == []
    with pytest.raises(NotFound):
        await hub.pairings.cancel(owner, pairing.pairing.id)
    redeemed = await hub.pairings.redeem(redemption(pairing.code), ADDRESS)
    assert (await sign_in(hub, redeemed.secret)).namespace == "other"


async def test_a_cancelled_pairing_and_one_of_a_revoked_token_work_no_more(hub: Hub, owner: Caller) -> None:
    cancelled = await hub.pairings.create(owner, NewPairing())
    await hub.pairings.cancel(owner, cancelled.pairing.id)
    admin, token = await make_admin(hub, owner, "admin")
    orphaned = await hub.pairings.create(admin, NewPairing())
    await hub.tokens.revoke(owner, token.id)
    for made in (cancelled, orphaned):
        with pytest.raises(NotFound):
            await hub.pairings.redeem(redemption(made.code), ADDRESS)
    with pytest.raises(Unauthorized):
        await hub.pairings.create(admin, NewPairing())
    assert (await hub.tokens.list(owner)).tokens == []


async def test_a_device_dies_with_the_token_that_paired_it(hub: Hub, owner: Caller) -> None:
    admin, token = await make_admin(hub, owner, "admin")
    made = await hub.pairings.create(admin, NewPairing())
    redeemed = await hub.pairings.redeem(redemption(made.code), ADDRESS)
    await hub.tokens.revoke(owner, token.id)
    with pytest.raises(Unauthorized):
        await sign_in(hub, redeemed.secret)


async def test_open_pairings_are_limited_and_expired_ones_do_not_count(
    hub: Hub, owner: Caller, clock: FakeClock
) -> None:
    for _ in range(pairings.MAX_OPEN):
        await hub.pairings.create(owner, NewPairing())
    with pytest.raises(Conflict):
        await hub.pairings.create(owner, NewPairing())
    await hub.pairings.create(await sign_in(hub, f"{OWNER_TOKEN}:other"), NewPairing())
    clock.now += TEN_MINUTES
    assert (await hub.pairings.create(owner, NewPairing())).code


async def test_a_full_namespace_leaves_the_code_usable(
    hub: Hub, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await hub.pairings.create(owner, NewPairing())
    monkeypatch.setattr("farsteer.hub.auth.tokens.MAX_TOKENS", 0)
    with pytest.raises(Conflict):
        await hub.pairings.redeem(redemption(made.code), ADDRESS)
    monkeypatch.undo()
    assert (await hub.pairings.redeem(redemption(made.code), ADDRESS)).secret


async def test_a_pairing_survives_a_restart_and_its_code_is_not_stored(
    hub: Hub, owner: Caller, home: Path, clock: FakeClock
) -> None:
    made = await hub.pairings.create(owner, NewPairing(label="a telling label"))
    await hub.close()
    stored = (home / "hub.db").read_bytes()
    assert b"a telling label" in stored
    for form in (made.code, made.code.replace("-", "")):
        assert form.encode() not in stored
    again = await Hub.open(home, OWNER_TOKEN, clock=clock)
    redeemed = await again.pairings.redeem(redemption(made.code), ADDRESS)
    assert (await again.tokens.exchange(AuthRequest(access_token=redeemed.secret))).namespace == "default"
    await again.close()


async def test_the_tokens_of_an_older_hub_are_no_devices(home: Path) -> None:
    home.mkdir(exist_ok=True)
    with sqlite3.connect(home / "hub.db", isolation_level=None) as db:
        migrate(db, MIGRATIONS[:16])
        db.execute("INSERT INTO tokens VALUES ('t', x'00', 'old', 'default', 'read', 1, NULL, NULL, 'owner')")
    db.close()
    hub = await Hub.open(home, OWNER_TOKEN)
    [old] = (await hub.tokens.list(await sign_in(hub, OWNER_TOKEN))).tokens
    assert (old.label, old.created_by, old.device) == ("old", "owner", None)
    assert (await hub.pairings.list(await sign_in(hub, OWNER_TOKEN))).pairings == []
    await hub.close()
