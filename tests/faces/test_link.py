"""`/link`: a runner in another process connects to the hub over a websocket; other clients are refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidStatus

from farsteer.core.capabilities import MachineInfo
from farsteer.core.errors import Unauthorized
from farsteer.core.ids import new_id
from farsteer.faces.link import HubWebSocketTransport
from farsteer.link.messages import MAX_FRAME, PROTOCOL, Ack, Hello, Ping, Pong, Refused, Welcome
from farsteer.link.transport import LinkClosed
from farsteer.link.websocket import connect
from farsteer.runner.runner import Runner
from farsteer.server import websocket
from tests.support.eventually import eventually
from tests.support.handshake import make_hello, shake_hands
from tests.support.stack import OWNER, Account, Stack, farsteer


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home, with_runner=False) as stack:
        yield stack


@pytest.fixture
async def owner(stack: Stack) -> Account:
    return await stack.sign_in()


def hello(machine_id: str | None = None, protocol: int = PROTOCOL) -> Hello:
    machine = MachineInfo(id=machine_id or new_id(), host="h", platform="linux", version="1")
    return replace(make_hello(machine), protocol=protocol)


async def machines(account: Account) -> dict[str, bool]:
    found = (await account.get_json("/api/machines"))["machines"]
    return {machine["id"]: machine["active"] for machine in found}


async def test_a_remote_runner_runs_a_session(stack: Stack, owner: Account, tmp_path: Path) -> None:
    runner = await Runner.open(tmp_path / "elsewhere")
    life = asyncio.create_task(runner.run(lambda: connect(stack.url, OWNER)))
    try:
        async with asyncio.timeout(10):
            await runner.connected.wait()
        session_id = await stack.create(owner)
        log = await owner.turn(session_id, "say hello over there")
        assert "hello over there" in [
            entry["content"].get("text") for entry in log if entry["role"] == "agent"
        ]
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        await runner.close()

    async def unreachable() -> bool:
        return (await owner.session(session_id))["status"] == "unreachable"

    await eventually(unreachable, 2.0)


async def test_a_machine_is_active_while_its_link_is_open(stack: Stack, owner: Account) -> None:
    machine_id = new_id()
    linked = await connect(stack.url, OWNER)
    assert isinstance(await shake_hands(linked, hello(machine_id)), Welcome)
    assert await machines(owner) == {machine_id: True}
    await linked.send(Ping())
    assert await linked.receive() == Pong()
    await linked.close()

    async def inactive() -> bool:
        return await machines(owner) == {machine_id: False}

    await eventually(inactive, 2.0)


async def test_the_token_decides_the_namespace(stack: Stack, owner: Account) -> None:
    linked = await connect(stack.url, f"{OWNER}:team")
    assert isinstance(await shake_hands(linked, hello()), Welcome)
    assert await machines(owner) == {}
    assert len(await machines(await stack.sign_in(f"{OWNER}:team"))) == 1
    await linked.close()


async def test_only_a_token_with_the_runner_scope_may_connect(stack: Stack, owner: Account) -> None:
    for token in ("nonsense", owner.headers["authorization"].removeprefix("Bearer ")):
        with pytest.raises(Unauthorized):
            await connect(stack.url, token)
    reader = await owner.post_json("/api/tokens", {"label": "reader", "scopes": ["read"]}, 201)
    with pytest.raises(LinkClosed, match="403"):
        await connect(stack.url, reader["secret"])
    runner = await owner.post_json("/api/tokens", {"label": "runner", "scopes": ["runner"]}, 201)
    linked = await connect(stack.url, runner["secret"])
    await linked.close()


async def refused(stack: Stack, path: str = "/link", **headers: str) -> int:
    address = stack.url.replace("http", "ws") + path
    try:
        async with open_websocket(address, additional_headers=headers):
            return 101
    except InvalidStatus as refusal:
        return refusal.response.status_code


async def test_invalid_handshakes_are_refused(stack: Stack) -> None:
    bearer = f"Bearer {OWNER}"
    assert await refused(stack, Authorization=bearer) == 101
    assert await refused(stack) == 401
    assert await refused(stack, f"/link?token={OWNER}") == 401
    assert await refused(stack, Authorization=bearer, Origin="https://evil.example") == 403
    assert await refused(stack, "/nowhere", Authorization=bearer) == 404


async def test_a_foreign_host_is_refused(stack: Stack) -> None:
    port = stack.url.rpartition(":")[2]
    with pytest.raises(InvalidStatus) as refusal:
        await open_websocket(
            f"ws://evil.example:{port}/link",
            host="127.0.0.1",
            additional_headers={"Authorization": f"Bearer {OWNER}"},
        )
    assert refusal.value.response.status_code == 403


async def test_a_revoked_token_closes_its_link(stack: Stack, owner: Account) -> None:
    made = await owner.post_json("/api/tokens", {"label": "runner", "scopes": ["runner"]}, 201)
    linked = await connect(stack.url, made["secret"])
    assert isinstance(await shake_hands(linked, hello()), Welcome)
    await owner.delete(f"/api/tokens/{made['token']['id']}")
    with pytest.raises(LinkClosed):
        async with asyncio.timeout(2):
            await linked.receive()
    await linked.close()


async def test_another_protocol_is_refused_with_the_reason(stack: Stack) -> None:
    linked = await connect(stack.url, OWNER)
    await linked.send(hello(protocol=PROTOCOL + 1))
    answer = await linked.receive()
    assert isinstance(answer, Refused)
    assert "protocol" in answer.reason
    await linked.close()


@pytest.mark.parametrize(
    "frame", ["garbage", b"\xff\xff", b'{"t":"ack"}', b"[" * 10_000], ids=["text", "bytes", "ack", "deep"]
)
async def test_an_invalid_frame_closes_only_its_link(
    stack: Stack, owner: Account, frame: bytes | str
) -> None:
    headers = {"Authorization": f"Bearer {OWNER}"}
    async with open_websocket(
        stack.url.replace("http", "ws") + "/link", additional_headers=headers
    ) as socket:
        await socket.send(frame)
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(5):
                await socket.recv()
    await owner.get_json("/api/machines")


async def drained(socket: ClientConnection) -> None:
    """Read until the connection is closed."""
    with suppress(ConnectionClosed):
        while True:
            await socket.recv()


async def test_a_runner_that_does_not_read_is_disconnected(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()

    async def flood(transport: HubWebSocketTransport, *_: object, **__: object) -> None:
        try:
            async with asyncio.timeout(0.5):
                while True:
                    await transport.send(Ack(session="s" * 1_000_000, seq=1))
        except TimeoutError:
            await transport.close()
            ended.set()

    monkeypatch.setattr(stack.hub.link, "serve", flood)
    monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 0.2)
    headers = {"Authorization": f"Bearer {OWNER}"}
    address = stack.url.replace("http", "ws") + "/link"
    async with (
        asyncio.timeout(10),
        open_websocket(
            address, additional_headers=headers, max_size=None, max_queue=1, close_timeout=0
        ) as socket,
    ):
        await ended.wait()
        await drained(socket)


async def test_a_frame_over_the_limit_is_refused_before_it_is_read(stack: Stack) -> None:
    headers = {"Authorization": f"Bearer {OWNER}"}
    async with open_websocket(
        stack.url.replace("http", "ws") + "/link", additional_headers=headers
    ) as socket:
        socket.transport.write(b"\x82\xff" + (MAX_FRAME + 1).to_bytes(8, "big") + b"mask")
        with pytest.raises(ConnectionClosed) as closed:
            async with asyncio.timeout(5):
                await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
