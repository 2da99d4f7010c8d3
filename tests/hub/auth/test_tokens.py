"""Access tokens, scopes and JWTs."""

import asyncio
import sqlite3
import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from farsteer.core.api import AuthRequest, NewToken, TokenView
from farsteer.core.errors import BadRequest, ErrorCode, Forbidden, NotFound, RateLimited, Unauthorized
from farsteer.hub import Caller, Hub, Scope
from farsteer.hub.auth.caller import ALL_SCOPES
from farsteer.hub.store.sqlite.schema import MIGRATIONS
from farsteer.link.transport import LinkClosed
from farsteer.storage.home import write_secret
from farsteer.storage.migrations import migrate
from tests.hub.conftest import OWNER_TOKEN
from tests.hub.scripted import ScriptedRunner


class FakeClock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


async def sign_in(hub: Hub, access_token: str, **fields: str) -> Caller:
    response = await hub.tokens.exchange(AuthRequest(access_token=access_token, **fields), "10.0.0.1")
    return hub.tokens.verify(response.token)


async def test_the_owners_token_opens_any_namespace_with_every_scope(hub: Hub) -> None:
    response = await hub.tokens.exchange(
        AuthRequest(access_token=OWNER_TOKEN, email="a@b.c", client_id="c1", device_type="web")
    )
    assert response.namespace == "default"
    assert (response.user.id, response.user.email, response.user.client_id) == (1, "a@b.c", "c1")
    owner = hub.tokens.verify(response.token)
    assert (owner.namespace, owner.scopes, owner.owner) == ("default", ALL_SCOPES, True)
    assert (owner.email, owner.client_id, owner.device_type) == ("a@b.c", "c1", "web")
    assert (await sign_in(hub, f"  {OWNER_TOKEN}:team-2 ")).namespace == "team-2"


@pytest.mark.parametrize(
    "access_token",
    [
        "wrong", " ", ":", ":ns", f"{OWNER_TOKEN}:", f"{OWNER_TOKEN}: ns", f"{OWNER_TOKEN} :ns", f"{OWNER_TOKEN}:a/b",
        f"{OWNER_TOKEN}:a:b", f"{OWNER_TOKEN}:{'x' * 65}", OWNER_TOKEN.upper(), OWNER_TOKEN + "x", OWNER_TOKEN[:-1],
        "\ud800", f"{OWNER_TOKEN}\x00",
    ],
)  # fmt: skip
async def test_a_wrong_or_malformed_access_token_is_refused(hub: Hub, access_token: str) -> None:
    with pytest.raises(Unauthorized):
        await hub.tokens.exchange(AuthRequest(access_token=access_token))


async def test_a_created_token_belongs_to_its_namespace_and_has_its_scopes(hub: Hub) -> None:
    owner = await sign_in(hub, OWNER_TOKEN)
    made = await hub.tokens.create(owner, NewToken(label="phone", namespace="team", scopes=["read"]))
    assert made.secret.startswith("fst_")
    for access_token in (made.secret, f"{made.secret}:team"):
        caller = await sign_in(hub, access_token)
        assert (caller.namespace, caller.scopes, caller.owner) == ("team", {Scope.READ}, False)
        assert caller.name == "phone"
    for access_token in (f"{made.secret}:default", f"{made.secret}:other", made.secret[:-1]):
        with pytest.raises(Unauthorized):
            await sign_in(hub, access_token)


async def test_only_the_hash_of_a_created_token_is_stored(hub: Hub, home: Path) -> None:
    made = await hub.tokens.create(await sign_in(hub, OWNER_TOKEN), NewToken(label="a telling label"))
    await hub.close()
    stored = (home / "hub.db").read_bytes()
    assert b"a telling label" in stored
    assert made.secret.encode() not in stored


async def test_created_tokens_survive_a_restart(hub: Hub, home: Path) -> None:
    made = await hub.tokens.create(await sign_in(hub, OWNER_TOKEN), NewToken(label="x", namespace="n"))
    await sign_in(hub, made.secret)
    await hub.close()
    again = await Hub.open(home, OWNER_TOKEN)
    listed = (await again.tokens.list(await sign_in(again, OWNER_TOKEN))).tokens
    assert [(token.label, token.namespace) for token in listed] == [("x", "n")]
    assert listed[0].last_used_at is not None
    assert (await sign_in(again, made.secret)).namespace == "n"
    await again.close()


async def test_a_token_can_grant_only_its_own_scopes(hub: Hub) -> None:
    owner = await sign_in(hub, OWNER_TOKEN)
    made = await hub.tokens.create(owner, NewToken(label="admin", namespace="team", scopes=["admin", "read"]))
    admin = await sign_in(hub, made.secret)
    await hub.tokens.create(admin, NewToken(label="reader", scopes=["read"]))
    for request in (
        NewToken(label="x", scopes=["write"]),
        NewToken(label="x", namespace="default", scopes=["read"]),
        NewToken(label="x"),
    ):
        with pytest.raises(Forbidden):
            await hub.tokens.create(admin, request)
    for wrong in (NewToken(label="x", scopes=["root"]), NewToken(label="x", scopes=[])):
        with pytest.raises(BadRequest):
            await hub.tokens.create(owner, wrong)
    with pytest.raises(BadRequest):
        await hub.tokens.create(owner, NewToken(label="x", namespace="a b"))


async def test_tokens_of_another_namespace_do_not_exist(hub: Hub) -> None:
    owner = await sign_in(hub, OWNER_TOKEN)
    secret = (await hub.tokens.create(owner, NewToken(label="a", namespace="a", scopes=["admin"]))).secret
    theirs = (await hub.tokens.create(owner, NewToken(label="b", namespace="b"))).token
    admin = await sign_in(hub, secret)
    assert [token.label for token in (await hub.tokens.list(admin)).tokens] == ["a"]
    with pytest.raises(NotFound):
        await hub.tokens.revoke(admin, theirs.id)
    with pytest.raises(NotFound):
        await hub.tokens.revoke(await sign_in(hub, f"{OWNER_TOKEN}:a"), theirs.id)
    assert len((await hub.tokens.list(owner)).tokens) == 2


async def test_a_revoked_token_opens_nothing_and_what_it_opened_is_closed(hub: Hub) -> None:
    owner = await sign_in(hub, OWNER_TOKEN)
    made = await hub.tokens.create(owner, NewToken(label="runner", scopes=["runner", "read"]))
    jwt = (await hub.tokens.exchange(AuthRequest(access_token=made.secret))).token
    link = hub.tokens.authenticate_runner(made.secret)
    revoked: list[str] = []
    stop = hub.tokens.on_revoke(revoked.append)
    runner = ScriptedRunner(hub, token_id=link.token_id)
    await runner.connect()
    await hub.tokens.revoke(owner, made.token.id)
    assert revoked == [made.token.id]
    await runner.wait_closed()
    with pytest.raises(Unauthorized):
        hub.tokens.verify(jwt)
    with pytest.raises(Unauthorized):
        await sign_in(hub, made.secret)
    with pytest.raises(NotFound):
        await hub.tokens.revoke(owner, made.token.id)
    stop()
    stop_twice = hub.tokens.on_revoke(revoked.append)
    stop_twice()


async def make_admin(hub: Hub, parent: Caller, label: str, **fields: Any) -> tuple[Caller, TokenView]:
    made = await hub.tokens.create(
        parent, NewToken(label=label, scopes=["admin", "read", "runner"], **fields)
    )
    return await sign_in(hub, made.secret), made.token


async def test_a_token_dies_with_its_parent_and_so_does_what_it_opened(hub: Hub, home: Path) -> None:
    owner = await sign_in(hub, OWNER_TOKEN)
    admin, parent = await make_admin(hub, owner, "parent")
    child_admin, child = await make_admin(hub, admin, "child")
    made = await hub.tokens.create(child_admin, NewToken(label="grandchild", scopes=["runner"]))
    _, sibling = await make_admin(hub, owner, "sibling")
    assert [token.created_by for token in (parent, child, made.token, sibling)] == [
        "owner", parent.id, child.id, "owner",
    ]  # fmt: skip
    runner = ScriptedRunner(hub, token_id=made.token.id)
    await runner.connect()
    ended: list[str] = []
    hub.tokens.on_revoke(ended.append)
    await hub.tokens.revoke(owner, parent.id)
    assert set(ended) == {parent.id, child.id, made.token.id}
    await runner.wait_closed()
    with pytest.raises(Unauthorized):
        await sign_in(hub, made.secret)
    with pytest.raises(Unauthorized):
        await hub.tokens.create(child_admin, NewToken(label="late", scopes=["read"]))
    await hub.close()
    again = await Hub.open(home, OWNER_TOKEN)
    listed = (await again.tokens.list(await sign_in(again, OWNER_TOKEN))).tokens
    assert [token.label for token in listed] == ["sibling"]
    await again.close()


async def test_a_token_that_is_created_while_its_parent_is_revoked_does_not_outlive_it(hub: Hub) -> None:
    owner = await sign_in(hub, OWNER_TOKEN)
    for first_created in (True, False):
        admin, parent = await make_admin(hub, owner, "parent")
        work: list[Coroutine[Any, Any, object]] = [
            hub.tokens.create(admin, NewToken(label="child", scopes=["read"])),
            hub.tokens.revoke(owner, parent.id),
        ]
        await asyncio.gather(*(work if first_created else reversed(work)), return_exceptions=True)
        assert (await hub.tokens.list(owner)).tokens == []
        assert await hub.store.list_tokens() == []


async def test_a_token_expires_no_later_than_its_parent(home: Path) -> None:
    clock = FakeClock()
    hub = await Hub.open(home, OWNER_TOKEN, clock=clock)
    owner = await sign_in(hub, OWNER_TOKEN)
    admin, parent = await make_admin(hub, owner, "parent", expires_in=100)
    assert parent.expires_at == clock.now + 100_000
    for expires_in, expected in ((None, 100_000), (1000, 100_000), (10, 10_000)):
        request = NewToken(label="child", scopes=["read"], expires_in=expires_in)
        child = await hub.tokens.create(admin, request)
        assert child.token.expires_at == clock.now + expected
    clock.now += 100_000
    with pytest.raises(Unauthorized):
        await sign_in(hub, child.secret)
    await hub.tokens.create(owner, NewToken(label="another"))
    assert [token.label for token in (await hub.tokens.list(owner)).tokens] == ["another"]
    await hub.close()


async def test_a_link_whose_token_is_revoked_while_it_is_accepted_is_closed(hub: Hub) -> None:
    owner = await sign_in(hub, OWNER_TOKEN)
    _, token = await make_admin(hub, owner, "runner")
    await hub.tokens.revoke(owner, token.id)
    runner = ScriptedRunner(hub, token_id=token.id)
    with pytest.raises(LinkClosed):
        await runner.connect()


async def test_the_owners_tokens_survive_a_new_owner_token(hub: Hub, home: Path) -> None:
    made = await hub.tokens.create(await sign_in(hub, OWNER_TOKEN), NewToken(label="phone"))
    await hub.close()
    again = await Hub.open(home, "another-token-of-the-owner")
    assert (await sign_in(again, made.secret)).label == "phone"
    await again.close()


async def test_the_tokens_of_an_older_hub_are_kept_and_have_no_creator(home: Path) -> None:
    home.mkdir(exist_ok=True)
    with sqlite3.connect(home / "hub.db", isolation_level=None) as db:
        migrate(db, MIGRATIONS[:3])
        db.execute("INSERT INTO tokens VALUES ('t', x'00', 'old', 'default', 'read', 1, NULL, NULL)")
    db.close()
    hub = await Hub.open(home, OWNER_TOKEN)
    [old] = (await hub.tokens.list(await sign_in(hub, OWNER_TOKEN))).tokens
    assert (old.label, old.created_by) == ("old", None)
    await hub.close()


async def test_a_link_needs_the_scope_runner(hub: Hub) -> None:
    assert hub.tokens.authenticate_runner(f"{OWNER_TOKEN}:team").namespace == "team"
    made = await hub.tokens.create(await sign_in(hub, OWNER_TOKEN), NewToken(label="x"))
    with pytest.raises(Forbidden):
        hub.tokens.authenticate_runner(made.secret)
    with pytest.raises(Unauthorized):
        hub.tokens.authenticate_runner("wrong")


async def test_a_jwt_lives_fifteen_minutes_and_no_longer_than_its_token(home: Path) -> None:
    clock = FakeClock()
    hub = await Hub.open(home, OWNER_TOKEN, clock=clock)
    owner = await sign_in(hub, OWNER_TOKEN)
    assert owner.expires_at == clock.now + 15 * 60_000
    made = await hub.tokens.create(owner, NewToken(label="short", expires_in=60))
    jwt = (await hub.tokens.exchange(AuthRequest(access_token=made.secret))).token
    assert hub.tokens.verify(jwt).expires_at == clock.now + 60_000
    clock.now += 60_000
    with pytest.raises(Unauthorized) as expired:
        hub.tokens.verify(jwt)
    assert expired.value.code is ErrorCode.TOKEN_EXPIRED
    with pytest.raises(Unauthorized):
        await sign_in(hub, made.secret)
    await hub.close()


async def test_an_expired_token_is_reported_like_a_revoked_one(home: Path) -> None:
    clock = FakeClock()
    hub = await Hub.open(home, OWNER_TOKEN, clock=clock)
    owner = await sign_in(hub, OWNER_TOKEN)
    short = await hub.tokens.create(owner, NewToken(label="short", expires_in=60))
    ended: list[str] = []
    hub.tokens.on_revoke(ended.append)
    clock.now += 61_000
    await hub.tokens.create(owner, NewToken(label="another"))
    assert ended == [short.token.id]
    assert [token.label for token in (await hub.tokens.list(owner)).tokens] == ["another"]
    await hub.close()


async def test_forged_jwts_are_refused(hub: Hub, tmp_path: Path) -> None:
    jwt = (await hub.tokens.exchange(AuthRequest(access_token=OWNER_TOKEN))).token
    header, payload, signature = jwt.split(".")
    unsigned = "eyJhbGciOiJub25lIn0"
    for forged in (
        "", "x", "a.b.c", f"{header}.{payload}.", f"{unsigned}.{payload}.", f"{header}.{payload}x.{signature}",
        jwt * 50, "\ud800.\ud800.\ud800",
    ):  # fmt: skip
        with pytest.raises(Unauthorized) as error:
            hub.tokens.verify(forged)
        assert error.value.code is ErrorCode.UNAUTHORIZED
    other = await Hub.open(tmp_path / "other", OWNER_TOKEN)
    with pytest.raises(Unauthorized):
        other.tokens.verify(jwt)
    await other.close()


async def test_a_new_owner_token_signs_everybody_out_who_used_the_old_one(hub: Hub, home: Path) -> None:
    jwt = (await hub.tokens.exchange(AuthRequest(access_token=OWNER_TOKEN))).token
    await hub.close()
    again = await Hub.open(home, "another-token-of-the-owner")
    with pytest.raises(Unauthorized):
        again.tokens.verify(jwt)
    await again.close()


async def test_failed_sign_ins_are_limited_per_address(hub: Hub) -> None:
    for _ in range(10):
        with pytest.raises(Unauthorized):
            await hub.tokens.exchange(AuthRequest(access_token="guess"), "6.6.6.6")
    with pytest.raises(RateLimited) as limited:
        await hub.tokens.exchange(AuthRequest(access_token="guess"), "6.6.6.6")
    assert 0 < limited.value.details["retryAfter"] <= 6
    await hub.tokens.exchange(AuthRequest(access_token=OWNER_TOKEN), "6.6.6.6")
    for _ in range(20):
        await hub.tokens.exchange(AuthRequest(access_token=OWNER_TOKEN), "1.1.1.1")
    assert hub.metrics.auth_failures == 11


class TestTheOwnersToken:
    async def test_it_is_made_once_for_the_owner_only(self, home: Path) -> None:
        hub = await Hub.open(home)
        token = (home / "token").read_text().strip()
        assert len(token) == 43
        assert (await sign_in(hub, token)).owner
        await hub.close()
        for name in ("token", "jwt.key", "hub.db"):
            assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
        again = await Hub.open(home)
        assert (await sign_in(again, token)).owner
        await again.close()

    async def test_the_environment_wins_over_the_file(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLI_API_TOKEN", "from-the-environment")
        hub = await Hub.open(home)
        assert (await sign_in(hub, "from-the-environment")).owner
        assert not (home / "token").exists()
        await hub.close()

    @pytest.mark.parametrize(
        "token",
        [
            "",
            "  ",
            " padded-token-of-the-owner",
            "padded-token-of-the-owner\n",
            "token-with:a-colon",
            "short-of-sixteen"[:-1],
        ],
    )
    async def test_a_malformed_one_is_refused_and_the_home_is_unlocked(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, token: str
    ) -> None:
        monkeypatch.setenv("CLI_API_TOKEN", token)
        with pytest.raises(BadRequest, match="CLI_API_TOKEN"):
            await Hub.open(home)
        monkeypatch.delenv("CLI_API_TOKEN")
        await (await Hub.open(home)).close()

    async def test_one_below_sixteen_characters_is_refused_and_it_says_how_to_make_one(
        self, home: Path
    ) -> None:
        write_secret(home / "token", b"hunter2\n")
        with pytest.raises(BadRequest, match=r"16 characters.*secrets\.token_urlsafe"):
            await Hub.open(home)
        await (await Hub.open(home, "sixteen-letters!")).close()

    async def test_a_damaged_key_is_not_used(self, home: Path) -> None:
        (home / "jwt.key").write_bytes(b"short")
        with pytest.raises(BadRequest, match="damaged"):
            await Hub.open(home)
