"""Requests share one token exchange, are repeated only where that is safe, and raise the hub's errors."""

import asyncio
import json

import httpx
import pytest

from farsteer.client import AsyncClient, connection
from farsteer.core import api, errors
from farsteer.core.errors import ErrorCode
from tests.client.fake_hub import URL, FakeHub, error, jwt

MACHINES = {"machines": []}
ACCEPTED = {"id": "i", "localId": "l", "state": "accepted", "position": 0}


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
def client(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> AsyncClient:
    monkeypatch.setattr(connection, "_RETRY_DELAYS", (0.0, 0.0))
    return AsyncClient(URL, "secret", transport=hub)


async def test_many_calls_at_once_make_one_exchange(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(*[httpx.Response(200, json=MACHINES)] * 10)
    await asyncio.gather(*(client.machines() for _ in range(10)))
    assert hub.exchanges == 1
    assert {request.headers["Authorization"] for request in hub.requests} == {f"Bearer {jwt(900, 1)}"}


async def test_the_token_is_renewed_before_it_expires(
    hub: FakeHub, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 50.0
    monkeypatch.setattr(connection.time, "monotonic", lambda: now)
    hub.script(*[httpx.Response(200, json=MACHINES)] * 3)
    await client.machines()
    now += 800
    await client.machines()
    assert hub.exchanges == 1
    now += 50
    await client.machines()
    assert hub.exchanges == 2


async def test_a_refused_jwt_is_renewed_once(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(error(401, "token_expired"), httpx.Response(200, json=MACHINES))
    assert await client.machines() == []
    assert hub.exchanges == 2
    hub.script(error(401, "token_expired"), error(401, "unauthorized", "who are you"))
    with pytest.raises(errors.Unauthorized, match="who are you"):
        await client.machines()
    assert not hub.answers


async def test_a_message_is_repeated_with_the_same_id(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(httpx.ReadError("cut"), httpx.ConnectError("down"), httpx.Response(202, json=ACCEPTED))
    assert (await client.send("s", "hello")).id == "i"
    bodies = [json.loads(request.content) for request in hub.requests]
    assert len(bodies) == 3
    assert len({body["localId"] for body in bodies}) == 1
    assert bodies[0]["text"] == "hello"


async def test_a_creation_is_repeated_with_the_same_key(hub: FakeHub, client: AsyncClient) -> None:
    created = {"type": "success", "sessionId": "s", "logs": []}
    hub.script(httpx.ReadTimeout("late"), httpx.Response(200, json=created))
    await client.create_session(api.CreateSession(machine_id="m", directory="/d"))
    keys = [request.headers["Idempotency-Key"] for request in hub.requests]
    assert len(keys) == 2
    assert keys[0] == keys[1]


async def test_an_abort_that_may_have_arrived_is_not_repeated(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(httpx.ReadError("cut"))
    with pytest.raises(errors.Unavailable, match="no hub at"):
        await client.abort("s")
    assert len(hub.requests) == 1


async def test_a_request_that_was_not_sent_is_repeated(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(httpx.ConnectError("refused"), httpx.Response(200, json={"ok": True}))
    await client.abort("s")
    assert len(hub.requests) == 2


async def test_retries_are_limited(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(*[httpx.ConnectError("refused")] * 3)
    with pytest.raises(errors.Unavailable, match=r"no hub at http://127\.0\.0\.1:3006: refused"):
        await client.machines()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "unknown_field", errors.BadRequest),
        (403, "forbidden", errors.Forbidden),
        (404, "machine_not_found", errors.NotFound),
        (409, "machine_offline", errors.MachineOffline),
        (409, "already_answered", errors.AlreadyAnswered),
        (422, "not_capable", errors.NotCapable),
        (429, "rate_limited", errors.RateLimited),
        (503, "timeout", errors.TimedOut),
    ],
)
async def test_an_error_code_becomes_its_exception(
    hub: FakeHub, client: AsyncClient, status: int, code: str, kind: type[errors.FarsteerError]
) -> None:
    hub.script(error(status, code, "because", field="x", message="a detail of that name"))
    with pytest.raises(kind, match="because") as caught:
        await client.session("s")
    assert caught.value.code == code
    assert caught.value.details == {"field": "x", "message": "a detail of that name"}


async def test_an_unknown_code_is_mapped_by_its_status(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(error(409, "invented_later"))
    with pytest.raises(errors.Conflict) as caught:
        await client.session("s")
    assert caught.value.code is ErrorCode.CONFLICT


async def test_a_failed_creation_carries_its_log(hub: FakeHub, client: AsyncClient) -> None:
    steps = [
        {"timestamp": 1, "step": "directory", "message": "found", "status": "ok", "code": None},
        {
            "timestamp": 2,
            "step": "agent",
            "message": "not here",
            "status": "error",
            "code": "agent_not_installed",
        },
    ]
    hub.script(httpx.Response(422, json={"type": "error", "message": "no such agent", "logs": steps}))
    with pytest.raises(errors.Unprocessable, match="no such agent") as caught:
        await client.create_session(api.CreateSession(machine_id="m", directory="/d"))
    assert caught.value.code is ErrorCode.AGENT_NOT_INSTALLED
    assert [line.step for line in caught.value.details["logs"]] == ["directory", "agent"]


async def test_a_call_takes_no_longer_than_its_timeout() -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with AsyncClient(URL, "secret", transport=httpx.MockTransport(silent)) as client:
        for call in (
            client.machines(timeout=0.02),
            client.start(".", timeout=0.02),
            client.attach("s").send("hello", timeout=0.02),
            client.attach("s").ask("hello", timeout=0.02),
            anext(client.sessions(timeout=0.02)),
        ):
            with pytest.raises(errors.TimedOut, match=r"longer than 0\.02 s"):
                await call


async def test_a_hub_that_is_silent_is_a_timeout_too(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(*(httpx.ReadTimeout("late") for _ in range(3)))
    with pytest.raises(errors.TimedOut, match="does not answer in time"):
        await client.machines()


async def test_a_closed_client_says_so(client: AsyncClient) -> None:
    await client.aclose()
    with pytest.raises(errors.Conflict, match="is closed; open another one"):
        await client.machines()
    with pytest.raises(errors.Conflict, match="is closed; open another one"):
        await anext(client.events())


async def test_an_answer_that_is_not_from_a_hub(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(httpx.Response(502, text="<html>Bad Gateway</html>"), httpx.Response(200, text="<html>"))
    with pytest.raises(errors.Unavailable, match="HTTP 502"):
        await client.machines()
    with pytest.raises(errors.Internal, match="does not understand"):
        await client.machines()


async def test_a_redirect_does_not_leak_the_token(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(httpx.Response(307, headers={"Location": "http://elsewhere.example.com/"}))
    with pytest.raises(errors.FarsteerError):
        await client.machines()
    assert {request.url.host for request in hub.requests} == {"127.0.0.1"}


async def test_an_id_cannot_change_the_path(hub: FakeHub, client: AsyncClient) -> None:
    hub.script(error(400, "invalid_id"))
    with pytest.raises(errors.BadRequest):
        await client.session("../tokens?x=1#y")
    assert hub.requests[0].url.raw_path == b"/api/sessions/..%2Ftokens%3Fx%3D1%23y"
