"""Every route needs a token with its scope unless it is declared open, and the OpenAPI document says the same."""

import re
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import msgspec
import pytest

from farsteer.core.ids import new_id
from farsteer.faces.app import ServerConfig, serve
from farsteer.faces.rest.app import TABLE
from farsteer.faces.rest.endpoint import AnyEndpoint
from farsteer.hub import Hub, Scope
from tests.support.stack import OWNER, Account, Stack, farsteer

OPEN = {("POST", "/api/auth"), ("POST", "/api/pairings/redeem"), ("GET", "/health")}


def address(endpoint: AnyEndpoint) -> str:
    return re.sub(r"{\w+}", lambda _: new_id(), endpoint.path)


def body(endpoint: AnyEndpoint) -> bytes | None:
    return None if endpoint.example is None else msgspec.json.encode(endpoint.example)


async def call(client: httpx.AsyncClient, endpoint: AnyEndpoint, token: str | None) -> httpx.Response:
    headers = {"content-type": "application/json"} | ({"authorization": token} if token is not None else {})
    return await client.request(endpoint.method, address(endpoint), content=body(endpoint), headers=headers)


@pytest.fixture
def stack(hub_only: Stack) -> Stack:
    return hub_only


async def test_every_route_that_is_not_open_needs_a_token(stack: Stack) -> None:
    nobody = await stack.connect()
    document = (await nobody.get("/openapi.json")).json()
    walked = set[tuple[str, str]]()
    for path, methods in document["paths"].items():
        for name, operation in methods.items():
            method = name.upper()
            response = await nobody.request(method, re.sub(r"{\w+}", lambda _: new_id(), path))
            walked.add((method, path))
            if operation["security"]:
                assert response.status_code == 401, (method, path)
                assert response.headers["www-authenticate"] == "Bearer"
                assert response.json()["error"]["code"] == "unauthorized"
            else:
                assert (method, path) in OPEN
                assert response.status_code != 401, (method, path)
    assert walked == {(endpoint.method, endpoint.path) for endpoint in TABLE} | {("GET", "/api/events")}


INVALID_JWTS = [
    "",
    "Bearer",
    "Bearer x",
    "Bearer a.b.c",
    f"Bearer {OWNER}",
    f"Basic {OWNER}",
    "Bearer " + "x" * 9000,
    "Bearer eyJhbGciOiJub25lIn0.eyJ1aWQiOjEsIm5zIjoiZGVmYXVsdCJ9.",
]


async def test_an_invalid_jwt_is_refused(stack: Stack) -> None:
    nobody = await stack.connect()
    for token in INVALID_JWTS:
        for endpoint in TABLE:
            if endpoint.scope is not None and not endpoint.accepts_access_token:
                assert (await call(nobody, endpoint, token)).status_code == 401, (endpoint.path, token)


async def test_an_access_token_instead_of_a_jwt_is_told_where_to_go(stack: Stack) -> None:
    client = await stack.connect()
    response = await client.get("/api/machines", headers={"authorization": f"Bearer {OWNER}"})
    assert response.status_code == 401
    assert "POST /api/auth" in response.json()["error"]["message"]


async def test_a_token_in_the_query_is_refused(stack: Stack, owner: Account) -> None:
    nobody = await stack.connect()
    jwt = owner.headers["authorization"].removeprefix("Bearer ")
    assert (await nobody.get("/api/machines", params={"token": jwt})).status_code == 401


async def test_two_authorization_headers_are_refused(stack: Stack, owner: Account) -> None:
    nobody = await stack.connect()
    token = owner.headers["authorization"]
    headers = [("authorization", token), ("authorization", token)]
    assert (await nobody.get("/api/machines", headers=headers)).status_code == 401


async def test_a_token_is_limited_to_its_scopes(stack: Stack, owner: Account) -> None:
    for scope in (Scope.READ, Scope.WRITE, Scope.APPROVE, Scope.ADMIN):
        made = await owner.post_json("/api/tokens", {"label": scope.value, "scopes": [scope.value]}, 201)
        account = await stack.sign_in(made["secret"])
        token = account.headers["authorization"]
        for endpoint in TABLE:
            if endpoint.scope is None:
                continue
            response = await call(account, endpoint, token)
            assert response.status_code != 401, endpoint.path
            lacking = response.status_code == 403 and response.json()["error"].get("details")
            assert (lacking == {"scope": endpoint.scope.value}) == (endpoint.scope is not scope), (
                endpoint.path
            )


async def test_a_revoked_token_is_refused_at_once(stack: Stack, owner: Account) -> None:
    made = await owner.post_json("/api/tokens", {"label": "short"}, 201)
    account = await stack.sign_in(made["secret"])
    await account.get_json("/api/machines")
    revoked = await owner.delete(f"/api/tokens/{made['token']['id']}")
    assert revoked.status_code == 200
    await account.get_json("/api/machines", 401)
    again = await account.post("/api/auth", json={"accessToken": made["secret"]})
    assert again.status_code == 401


@pytest.mark.slow
async def test_an_expired_jwt_has_its_own_error_code(home: Path) -> None:
    now = [1_800_000_000_000]
    async with AsyncExitStack() as opened:
        hub = await Hub.open(home, OWNER, clock=lambda: now[0])
        opened.push_async_callback(hub.close)
        url = await opened.enter_async_context(serve(hub, ServerConfig(port=0)))
        client = await opened.enter_async_context(httpx.AsyncClient(base_url=url))
        jwt = (await client.post("/api/auth", json={"accessToken": OWNER})).json()["token"]
        client.headers["authorization"] = f"Bearer {jwt}"
        assert (await client.get("/api/machines")).status_code == 200
        now[0] += 15 * 60 * 1000
        for path in ("/api/machines", "/api/events", "/metrics"):
            response = await client.get(path)
            assert response.status_code == 401, path
            assert response.json()["error"]["code"] == "token_expired"


async def test_failed_sign_ins_are_limited(stack: Stack) -> None:
    nobody = await stack.connect()
    guesses = 0
    while (response := await nobody.post("/api/auth", json={"accessToken": "guess"})).status_code == 401:
        guesses += 1
        assert guesses < 100
    assert response.status_code == 429
    assert response.json()["error"]["code"] == "rate_limited"
    assert int(response.headers["retry-after"]) >= 1


async def test_metrics_accept_a_jwt_or_an_access_token(stack: Stack, owner: Account) -> None:
    nobody = await stack.connect()
    for token in (owner.headers["authorization"], f"Bearer {OWNER}"):
        response = await nobody.get("/metrics", headers={"authorization": token})
        assert response.status_code == 200
    assert (await nobody.get("/metrics", headers={"authorization": "Bearer x"})).status_code == 401
    assert (await nobody.get("/metrics")).status_code == 401


async def test_the_guard_protects_every_face(stack: Stack, owner: Account) -> None:
    for path in ("/api/machines", "/api/events", "/socket.io/?EIO=4&transport=polling", "/health"):
        foreign = await owner.get(path, headers={"host": "evil.example"})
        assert foreign.status_code == 403, path
        assert foreign.json()["error"]["code"] == "host_not_allowed"
        page = await owner.get(path, headers={"origin": "https://evil.example"})
        assert page.status_code == 403, path
        assert page.json()["error"]["code"] == "origin_not_allowed"


@pytest.mark.slow
async def test_a_configured_origin_may_use_every_face(home: Path) -> None:
    async with farsteer(home, with_runner=False, allowed_origins=("https://app.example",)) as stack:
        owner = await stack.sign_in()
        page = {"origin": "https://app.example"}
        for path in ("/api/machines", "/socket.io/?EIO=4&transport=polling"):
            response = await owner.get(path, headers=page)
            assert response.status_code == 200, response.text
            assert response.headers.get_list("access-control-allow-origin") == ["https://app.example"]
            asked = await owner.options(path, headers={**page, "access-control-request-method": "POST"})
            assert asked.status_code == 204
            other = await owner.get(path, headers={"origin": "https://app.example.evil.example"})
            assert other.status_code == 403
