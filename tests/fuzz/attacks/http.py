"""Raw HTTP: request lines, headers, chunked bodies, pipelining, connections that stop in the middle."""

from __future__ import annotations

import json

from tests.fuzz.attack import Attack
from tests.fuzz.corpus import rest_requests
from tests.fuzz.mutator import Mutator
from tests.fuzz.wire import Wire, connected

_METHODS = ("GET", "POST", "PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PRI", "get", "", "G\0T", "x" * 5000)
_VERSIONS = ("HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "HTTP/1.1 ", "", "ICY", "HTTP/1.10000000000")
_HEADERS = (
    ("Host", "evil.example"), ("Host", ""), ("Origin", "https://evil.example"), ("Content-Length", "-1"),
    ("Content-Length", "99999999999999999999"), ("Content-Length", "5, 6"), ("Transfer-Encoding", "chunked"),
    ("Transfer-Encoding", "gzip, chunked"), ("Transfer-Encoding", "identity"), ("Expect", "100-continue"),
    ("Connection", "upgrade"), ("Upgrade", "h2c"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "short"),
    ("Sec-WebSocket-Version", "12"), ("Authorization", "Bearer a.b.c"), ("Authorization", "Basic eA=="),
    ("Authorization", "Bearer " + "x" * 9000), ("Content-Type", "text/plain; charset=utf-7"),
    ("Content-Encoding", "gzip"),
    ("Range", "bytes=" + ",".join(f"{n}-" for n in range(500))), ("X-Forwarded-For", "1.2.3.4, 5.6.7.8"),
    ("Forwarded", "for=[::1];host=evil"), ("Cookie", "a=" + "b" * 9000), ("Idempotency-Key", "k\x80"), (" Folded", "x"),
    ("X", "y\r\n z"), ("\x00", "nul"), ("Last-Event-ID", "x"), ("Accept-Encoding", "br;q=" + "0" * 999),
)  # fmt: skip


async def play(attack: Attack) -> None:
    mutator = attack.mutator
    async with connected(attack) as wire:
        token = await attack.target.jwt()
        requests = [_request(attack, token) for _ in range(mutator.pick((1, 1, 1, 2, 3, 20)))]
        data = b"".join(requests)
        if mutator.chance(0.5):
            data = mutator.bytes(data)
        await _send(wire, mutator, data)
        while await wire.read(0.3) and wire.open:
            pass


async def _send(wire: Wire, mutator: Mutator, data: bytes) -> None:
    kind = mutator.random.random()
    if kind < 0.8:
        await wire.send(data)
    elif kind < 0.9:
        for cut in range(0, min(len(data), 400), 7):
            await wire.send(data[cut : cut + 7])
    else:
        await wire.send(data[: mutator.random.randint(0, len(data))])
        if mutator.chance(0.5):
            wire.half_close()


def _request(attack: Attack, token: str) -> bytes:
    mutator, target = attack.mutator, attack.target
    method, path, body = mutator.pick(rest_requests(target, mutator.pick(target.sessions), mutator.uuid()))
    version = "HTTP/1.1"
    headers = [("Host", target.address), ("Authorization", f"Bearer {token}")]
    content = b"" if body is None else json.dumps(body).encode()
    if body is not None:
        headers.append(("Content-Type", "application/json"))
    if mutator.chance(0.3):
        content = mutator.message(body)
    content = _frame_body(mutator, headers, content)
    kind = mutator.random.random()
    if kind < 0.1:
        method = mutator.pick(_METHODS)
    elif kind < 0.2:
        path = mutator.pick(
            ("*", "//", "/" + "a" * 70_000, "/%00", "/..%2f..%2f", "http://evil/", "/?" + "a&" * 20_000, "")
        )
    elif kind < 0.3:
        version = mutator.pick(_VERSIONS)
    for _ in range(mutator.pick((0, 0, 1, 2, 5))):
        headers.insert(mutator.random.randint(0, len(headers)), mutator.pick(_HEADERS))
    if mutator.chance(0.03):
        headers += [
            (f"x-{number}", "v" * mutator.pick((1, 1000))) for number in range(mutator.pick((99, 101, 5000)))
        ]
    if mutator.chance(0.05):
        del headers[mutator.random.randrange(len(headers))]
    lines = [f"{method} {path} {version}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace") + content


def _frame_body(mutator: Mutator, headers: list[tuple[str, str]], content: bytes) -> bytes:
    """Say how long the body is, in one of the ways there are, perhaps wrongly."""
    kind = mutator.random.random()
    if kind < 0.6:
        headers.append(("Content-Length", str(len(content))))
        return content
    if kind < 0.7:
        headers.append(("Content-Length", str(len(content) + mutator.pick((-1, 1, 100, 10**9)))))
        return content
    headers.append(("Transfer-Encoding", "chunked"))
    size = mutator.pick((1, 7, 1000))
    parts = [content[at : at + size] for at in range(0, min(len(content), 3000), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    ending = mutator.pick(
        (
            b"0\r\n\r\n",
            b"0\r\nx: y\r\n\r\n",
            b"",
            b"-1\r\n",
            b"f" * 20 + b"\r\n",
            b"1;a=" + b"b" * 9000 + b"\r\n",
        )
    )
    return chunks + ending
