"""Server-sent events: odd cursors, filters and headers, and readers that leave."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from tests.fuzz.attack import Attack
from tests.fuzz.wire import connected


async def play(attack: Attack) -> None:
    mutator, target = attack.mutator, attack.target
    query: dict[str, str] = {}
    for name, valid in (
        ("since", str(mutator.random.randrange(10_000))),
        ("sessionId", mutator.pick(target.sessions)),
        ("types", "message-received,message-delta"),
        ("token", "a.b.c"),
    ):
        if mutator.chance(0.5):
            odd = mutator.text().encode("utf-8", "replace").decode()
            query[name] = valid if mutator.chance(0.5) else odd[:5000]
    text = urlencode(query, quote_via=quote)
    if mutator.chance(0.2):
        text += "&" + text + "&types=&types=x&since=%ff"
    headers = {
        "Host": target.address,
        "Authorization": f"Bearer {await target.jwt()}",
        "Accept": "text/event-stream",
    }
    if mutator.chance(0.4):
        headers["Last-Event-ID"] = mutator.pick(("0", "1", "-1", "9" * 40, "x", "\xff", "1.5", ""))
    lines = [
        f"GET /api/events?{text} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    async with connected(attack) as wire:
        await wire.send("\r\n".join(lines).encode("latin-1"))
        if await wire.read(1.0) and mutator.chance(0.3):
            await target.request(
                "POST", f"/api/sessions/{mutator.pick(target.sessions)}/typing", {"text": "x"}
            )
            await wire.read(0.2)
        if mutator.chance(0.2):
            await wire.send(mutator.bytes(b"GET /health HTTP/1.1\r\n\r\n"))
            await wire.read(0.1)
