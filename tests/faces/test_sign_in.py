"""Guesses are counted at every face, per client, and a right token is let in whatever others guess."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest
import socketio
from socketio import exceptions as socketio_exceptions
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from farsteer.core.errors import BadRequest
from farsteer.faces.app import ServerConfig, serve
from tests.support.stack import OWNER, Stack, farsteer

GUESS = "a-wrong-token-of-some-length"
JWT_GUESS = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home, with_runner=False) as stack:
        yield stack


async def sign_in(stack: Stack, token: str) -> int:
    async with httpx.AsyncClient(base_url=stack.url) as client:
        return (await client.post("/api/auth", json={"accessToken": token})).status_code


async def read_metrics(stack: Stack, token: str) -> int:
    async with httpx.AsyncClient(base_url=stack.url) as client:
        return (await client.get("/metrics", headers={"authorization": f"Bearer {token}"})).status_code


async def open_websocket(stack: Stack, path: str, token: str) -> int:
    url = stack.url.replace("http", "ws", 1) + path
    try:
        async with connect(url, additional_headers={"authorization": f"Bearer {token}"}):
            return 200
    except InvalidStatus as refused:
        return refused.response.status_code


async def open_acp(stack: Stack, token: str) -> int:
    return await open_websocket(stack, "/acp", token)


async def open_link(stack: Stack, token: str) -> int:
    return await open_websocket(stack, "/link", token)


async def open_live_events(stack: Stack, token: str) -> int:
    async with httpx.AsyncClient(base_url=stack.url) as client:
        jwt = (
            (await client.post("/api/auth", json={"accessToken": token})).json()["token"]
            if token == OWNER
            else token
        )
    refusals: list[dict[str, str]] = []
    client = socketio.AsyncClient(reconnection=False)
    client.on("connect_error", refusals.append, namespace="/events")
    try:
        await client.connect(stack.url, auth={"token": jwt}, namespaces=["/events"], transports=["websocket"])
    except socketio_exceptions.ConnectionError:
        return {"unauthorized": 401, "rate_limited": 429}[refusals[0]["data"]["code"]]  # type: ignore[index]
    finally:
        await client.disconnect()
    return 200


Attempt = Callable[[Stack, str], Awaitable[int]]
FACES: list[Attempt] = [sign_in, read_metrics, open_acp, open_link, open_live_events]


@pytest.mark.parametrize("guess", [GUESS, JWT_GUESS], ids=["access token", "JWT"])
@pytest.mark.parametrize("attempt", FACES, ids=lambda face: face.__name__)
async def test_guesses_are_counted_and_a_right_token_is_let_in(
    stack: Stack, attempt: Attempt, guess: str
) -> None:
    answers = [await attempt(stack, guess) for _ in range(12)]
    assert set(answers[:10]) == {401}
    assert answers[-1] == 429
    assert await sign_in(stack, GUESS) == 429, "one count for all faces"
    for other in FACES:
        assert await other(stack, OWNER) == 200, other.__name__


async def test_a_wrong_jwt_in_a_request_is_always_answered_with_401(stack: Stack) -> None:
    for _ in range(15):
        answer = await (await stack.connect()).get(
            "/api/machines", headers={"authorization": f"Bearer {JWT_GUESS}"}
        )
        assert answer.status_code == 401


async def guess_as(client: httpx.AsyncClient, **headers: str) -> int:
    answer = await client.post("/api/auth", json={"accessToken": GUESS}, headers=headers)
    return answer.status_code


@pytest.mark.slow
async def test_behind_a_trusted_proxy_guesses_are_counted_per_client(home: Path) -> None:
    async with (
        farsteer(home, with_runner=False, trusted_proxies=("127.0.0.0/8",)) as stack,
        httpx.AsyncClient(base_url=stack.url) as proxy,
    ):
        guesser = {"x-forwarded-for": "203.0.113.7"}
        assert [await guess_as(proxy, **guesser) for _ in range(11)] == [401] * 10 + [429]
        assert await guess_as(proxy, **{"x-forwarded-for": "203.0.113.7, 203.0.113.8"}) == 401
        assert await guess_as(proxy, forwarded="for=203.0.113.7") == 429
        assert await guess_as(proxy, **{"x-forwarded-for": "8.8.8.8, 203.0.113.7"}) == 429


async def test_forwarded_addresses_of_a_stranger_do_not_help_a_guesser(stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=stack.url) as client:
        answers = [await guess_as(client, **{"x-forwarded-for": f"203.0.113.{n}"}) for n in range(12)]
    assert answers == [401] * 10 + [429] * 2


async def test_an_invalid_trusted_proxy_is_refused_at_the_start(stack: Stack) -> None:
    with pytest.raises(BadRequest, match="trusted proxy"):
        async with serve(stack.hub, ServerConfig(port=0, trusted_proxies=("proxy.example.com",))):
            pass
