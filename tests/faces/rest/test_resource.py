"""Common behaviour of all endpoints: error bodies, methods, headers, and no internal details in responses."""

import logging
from typing import Any

import pytest
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import InvalidStatus

from farsteer.core.ids import is_uuid, new_id
from tests.support.stack import OWNER, Account, Stack


@pytest.fixture
def stack(hub_only: Stack) -> Stack:
    return hub_only


async def test_an_unknown_path_is_not_found(owner: Account) -> None:
    for path in (
        "/nowhere",
        "/api/nowhere",
        "/api/sessions/",
        "/api//sessions",
        "/api/sessions/..%2f..%2fetc",
    ):
        response = await owner.get(path)
        assert response.status_code == 404, path
        assert response.json() == {"error": {"code": "not_found", "message": "no such address"}}


async def test_a_wrong_method_gets_the_allowed_methods(owner: Account) -> None:
    response = await owner.put("/api/sessions", json={})
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD, POST"
    assert response.json()["error"]["code"] == "method_not_allowed"
    options = await owner.options("/api/machines")
    assert options.status_code == 405
    assert options.headers["allow"] == "GET, HEAD"


async def test_head_is_get_without_the_body(owner: Account) -> None:
    got = await owner.get("/api/machines")
    head = await owner.head("/api/machines")
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(got.content))


async def test_every_response_has_security_headers(owner: Account) -> None:
    for response in (
        await owner.get("/api/machines"),
        await owner.get("/api/nowhere"),
        await owner.get("/docs"),
    ):
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in response.headers
        assert "date" in response.headers


async def test_a_malformed_id_is_refused(owner: Account) -> None:
    for method, path in (
        ("GET", "/api/machines/{}"),
        ("GET", "/api/sessions/{}"),
        ("DELETE", "/api/tokens/{}"),
        ("DELETE", f"/api/sessions/{new_id()}/queue/{{}}"),
    ):
        for wrong in ("x", "-rf", "0", "9c4b1a52-0000-0000-0000-00000000000G", "%00", "%2e%2e%2e", "a%0a"):
            response = await owner.request(method, path.format(wrong))
            assert response.status_code == 400, (path, wrong)
            assert response.json()["error"]["code"] == "invalid_id"


async def test_an_unknown_query_parameter_is_refused(owner: Account) -> None:
    for path in ("/api/machines", "/api/sessions", "/health"):
        response = await owner.get(path, params={"colour": "red"})
        assert response.status_code == 400
        assert response.json()["error"]["details"]["field"] == "colour"


BAD_BODIES = [
    (b"{", "application/json", 400, "invalid_json"),
    (b"", "application/json", 400, "invalid_json"),
    (b"[]", "application/json", 400, "bad_request"),
    (b'{"accessToken":1}', "application/json", 400, "bad_request"),
    (b'{"accessToken":"x","admin":true}', "application/json", 400, "unknown_field"),
    (b'{"accessToken":"x"}', "text/plain", 415, "unsupported_media"),
    (b"accessToken=x", "application/x-www-form-urlencoded", 415, "unsupported_media"),
    (b'{"accessToken":"' + b"x" * 300_000 + b'"}', "application/json", 413, "too_large"),
]


async def test_invalid_bodies_are_refused(stack: Stack) -> None:
    nobody = await stack.connect()
    for content, media_type, status, code in BAD_BODIES:
        response = await nobody.post("/api/auth", content=content, headers={"content-type": media_type})
        assert response.status_code == status, content[:100]
        assert response.json()["error"]["code"] == code


async def test_an_internal_error_is_logged_and_not_shown(
    stack: Stack, owner: Account, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the inside story")

    monkeypatch.setattr(stack.hub.machines, "list", broken)
    with caplog.at_level(logging.ERROR, "farsteer"):
        response = await owner.get("/api/machines")
    assert response.status_code == 500
    error = response.json()["error"]
    assert error["code"] == "internal"
    assert is_uuid(error["details"]["id"])
    assert "inside story" not in response.text
    record = next(record for record in caplog.records if error["details"]["id"] in record.getMessage())
    assert record.exc_info is not None
    assert "inside story" in str(record.exc_info[1])


async def test_an_internal_error_during_sign_in_has_the_same_form(
    stack: Stack, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the inside story")

    monkeypatch.setattr(stack.hub.tokens, "verify", broken)
    for response in (await owner.get("/api/machines"), await owner.post("/api/sessions", json={})):
        assert response.status_code == 500
        assert response.json()["error"]["code"] == "internal"
        assert "inside story" not in response.text


async def test_no_secret_is_logged(stack: Stack, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        owner = await stack.sign_in()
        await owner.get_json("/api/machines")
        await owner.get("/api/nowhere", params={"token": "secret-in-the-url"})
        with pytest.raises(InvalidStatus):
            await open_websocket(stack.url.replace("http", "ws") + "/link?token=secret-in-the-url")
    clients = ("httpx", "httpcore", "websockets.client")
    written = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith(clients)
    )
    assert OWNER not in written
    assert owner.headers["authorization"].removeprefix("Bearer ") not in written
    assert "secret-in-the-url" not in written


@pytest.mark.parametrize(
    "body",
    [
        b'{"text":"x","attachments":%b}' % (b"[" * 65),
        b'{"text":"x","attachments":[%b{}]}' % (b'{"name":"a"},' * 100_000),
    ],
    ids=["deep", "many"],
)
async def test_a_body_that_is_too_complex_is_refused_before_it_is_decoded(
    owner: Account, body: bytes
) -> None:
    headers = {"content-type": "application/json"}
    response = await owner.post(f"/api/sessions/{new_id()}/messages", content=body, headers=headers)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "invalid_json"
    assert error["message"].startswith("the body is too complex: JSON")
