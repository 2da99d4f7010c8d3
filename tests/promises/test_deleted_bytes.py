"""A deleted session leaves nothing of what was said in it on the disk of the hub or of its machine."""

from __future__ import annotations

from farsteer.core.api import NewAttachment
from tests.promises.station import SECONDS, Station
from tests.support.eventually import eventually

MARKER = b"never to be seen again"
MIB = 1024 * 1024


def files_with_marker(station: Station) -> list[str]:
    found: list[str] = []
    for home in ("hub", "runner"):
        for path in (station.root / home).rglob("*"):
            try:
                if path.is_file() and MARKER in path.read_bytes():
                    found.append(str(path.relative_to(station.root)))
            except FileNotFoundError:
                continue
    return found


def database_bytes(station: Station) -> int:
    homes = [station.root / home for home in ("hub", "runner")]
    return sum(path.stat().st_size for home in homes for path in home.glob("*.db*"))


async def test_the_bytes_of_a_deleted_session_leave_the_disk(station: Station) -> None:
    client = station.client()
    kept = await client.start(station.desk, agent="demo")
    await kept.ask("hello")
    session = await client.start(station.desk, agent="demo", title=MARKER.decode())
    text = MARKER.decode()
    await session.ask(f"say {text}")
    await session.send("slow 1000")
    attachment = NewAttachment(name=text, data="aGk=")
    await session.send(text, attachments=[attachment])
    for _ in range(10):
        await session.send(f"{text} " * 20_000)
    assert {"hub/hub.db", "hub/hub.db-wal"} & {*files_with_marker(station)}
    assert any(name.startswith("runner/runner.db") for name in files_with_marker(station))
    await client.delete(session.id)
    await eventually(lambda: not files_with_marker(station), SECONDS)
    await eventually(lambda: database_bytes(station) < MIB, SECONDS)
    assert (await client.session(kept.id)).last_message is not None
