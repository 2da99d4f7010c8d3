"""The runner's websocket transport to the `/link` endpoint of a hub."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from farsteer.core.errors import BadRequest, Unauthorized
from farsteer.link.channel import Channel
from farsteer.link.frames import decode_at_runner
from farsteer.link.identity import token_digest
from farsteer.link.messages import MAX_FRAME, ToHub, ToRunner
from farsteer.link.transport import LinkClosed

_SCHEMES = {"http": "ws", "ws": "ws", "https": "wss", "wss": "wss"}
_CLOSE_SECONDS = 2.0


class _Connection(ClientConnection):
    """Counts the bytes that arrive."""

    received_bytes = 0

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        super().data_received(data)


class RunnerWebSocketTransport(Channel[ToHub, ToRunner]):
    """The runner's end of a link. Liveness is checked by the link's own Ping messages."""

    def __init__(self, socket: ClientConnection, token_digest: bytes) -> None:
        super().__init__(token_digest)
        self._socket = socket

    @property
    def received_bytes(self) -> int:
        return self._socket.received_bytes if isinstance(self._socket, _Connection) else 0

    async def _write(self, frame: bytes) -> None:
        try:
            await self._socket.send(frame)
        except ConnectionClosed as closed:
            raise LinkClosed(str(closed)) from closed

    async def _read(self) -> bytes:
        try:
            return await self._socket.recv(decode=False)
        except ConnectionClosed as closed:
            raise LinkClosed(str(closed)) from closed

    async def _decode(self, frame: bytes) -> ToRunner:
        return decode_at_runner(frame)

    async def _close(self) -> None:
        await self._socket.close()

    def _unsent_bytes(self) -> int:
        return self._socket.transport.get_write_buffer_size()


async def connect(
    url: str, token: str, *, allow_insecure: bool = False, open_timeout: float = 10.0
) -> RunnerWebSocketTransport:
    """Connect to the hub at `url`. The access token is sent in a header, never in the URL.

    Raises Unauthorized if the hub refuses the token, LinkClosed if the hub cannot be reached, and BadRequest if `url`
    would send the token unencrypted over a network.
    """
    address = link_address(url, allow_insecure=allow_insecure)
    try:
        socket = await open_websocket(
            address,
            create_connection=_Connection,
            additional_headers={"Authorization": f"Bearer {token}"},
            compression=None,
            max_size=MAX_FRAME,
            open_timeout=open_timeout,
            ping_interval=None,
            close_timeout=_CLOSE_SECONDS,
            proxy=None if _is_loopback(urlsplit(address)) else True,
        )
    except InvalidStatus as refused:
        if refused.response.status_code == 401:
            raise Unauthorized("the hub refuses this access token") from refused
        raise LinkClosed(f"the hub answered with HTTP {refused.response.status_code}") from refused
    except (OSError, InvalidHandshake) as failed:
        raise LinkClosed(f"the hub at {address} cannot be reached: {failed}") from failed
    return RunnerWebSocketTransport(socket, token_digest(token))


def link_address(url: str, *, allow_insecure: bool = False) -> str:
    """Return the websocket URL of the link endpoint. Raises BadRequest for a URL that must not be used."""
    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise BadRequest(f"{url!r} is not the URL of a hub; use a URL such as https://host:port")
    if parts.username is not None or parts.query or parts.fragment:
        raise BadRequest("the URL of a hub must not contain credentials, a query or a fragment")
    if scheme == "ws" and not _is_loopback(parts) and not allow_insecure:
        raise BadRequest(
            f"{url} would send the token unencrypted over the network; use https, or allow it explicitly"
        )
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/link"


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
