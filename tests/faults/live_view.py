"""What a client sees that follows all sessions live and resumes from its cursor after every cut."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import httpx
import msgspec

from farsteer import AsyncClient
from farsteer.client.live_events import Gap
from farsteer.core import events as ev
from farsteer.core.errors import FarsteerError, NotFound
from farsteer.core.events import Entry
from farsteer.core.session import SessionState
from tests.endurance.log_checker import LogChecker
from tests.faults.restored_log import OlderHubChecker
from tests.support.eventually import eventually

CATCH_UP_SECONDS = 20.0


@dataclass(slots=True)
class LiveLog:
    """One session as it was told live. Entries that a fork or an import began with are not told."""

    checker: LogChecker
    first_seq: int
    read_upto: int = 0
    """The last entry that was read after a gap."""
    digests: dict[int, int] = field(default_factory=dict[int, int])
    """Of the entries that no rewind has hidden."""


class LiveView:
    def __init__(self, client: AsyncClient) -> None:
        self.logs: dict[str, LiveLog] = {}
        self.changed = asyncio.Event()
        """Set by every event. Whoever waits for it clears it."""
        self.gaps_allowed = 0
        """How many gaps may still be told: only a hub that was set back tells one."""
        self.journal_is_older = False
        """The runner's database was set back."""
        self.gaps = 0
        self._client = client

    async def run(self) -> None:
        """Follow until cancelled. Raises AssertionError for what must not happen."""
        async with self._client.events(types=["message-received"]) as events:
            async for event in events:
                if isinstance(event, Gap):
                    await self._handle_gap()
                elif event.entry is not None and event.session_id is not None:
                    self._add(event.session_id, event.entry)
                self.changed.set()

    def _add(self, session: str, entry: Entry) -> None:
        log = self.logs.get(session)
        if log is None:
            log = self.logs[session] = LiveLog(self._new_checker(session, entry.seq - 1), entry.seq)
        if self.journal_is_older:
            log.checker.runner_set_back = True
        if entry.seq <= log.read_upto:
            # It was read after a gap, and is told too.
            return
        try:
            log.checker.check_entry(entry)
        except AssertionError as error:
            raise AssertionError(f"session {session}: {error}") from None
        if isinstance(entry.content, ev.Rewound):
            for seq in range(entry.content.first_seq, entry.seq):
                log.digests.pop(seq, None)
        log.digests[entry.seq] = digest(entry)

    async def _handle_gap(self) -> None:
        """Read again what is shown, as every client has to."""
        assert self.gaps_allowed, "the subscriber was told a gap, and no hub was set back"
        self.gaps_allowed -= 1
        self.gaps += 1
        for session in [*self.logs]:
            await eventually(lambda session=session: self._read_again(session), CATCH_UP_SECONDS)

    async def _read_again(self, session: str) -> bool:
        try:
            stored = [entry async for entry in self._client.messages(session)]
        except NotFound:
            self.forget(session)
            return True
        except (FarsteerError, httpx.HTTPError, OSError):
            return False
        state = SessionState(id=session, agent="demo", directory="")
        first, last = (stored[0].seq, stored[-1].seq) if stored else (1, 0)
        log = LiveLog(OlderHubChecker(state, stored), first, last)
        log.digests = {entry.seq: digest(entry) for entry in stored}
        self.logs[session] = log
        return True

    def _new_checker(self, session: str, seq: int) -> LogChecker:
        state = SessionState(id=session, agent="demo", directory="", seq=seq)
        return OlderHubChecker(state, []) if self.gaps else LogChecker(state)

    async def check_stored(self, client: AsyncClient, session: str) -> None:
        """The pages of the log have what was told, and nothing else, as soon as the subscriber has caught up."""
        wrong: list[int] = []

        async def agree() -> bool:
            wrong[:] = await self._find_differences(client, session)
            return not wrong

        try:
            await eventually(agree, CATCH_UP_SECONDS)
        except TimeoutError:
            told = sorted(self.logs[session].digests)[-1:] if session in self.logs else []
            raise AssertionError(
                f"session {session}: live and stored entries differ at {wrong[:10]}, the last told is {told}"
            ) from None

    async def _find_differences(self, client: AsyncClient, session: str) -> list[int]:
        stored = {entry.seq: digest(entry) async for entry in client.messages(session)}
        log = self.logs.get(session)
        if log is None:
            # Entries that a fork or an import began with are not told.
            return []
        stored = {seq: value for seq, value in stored.items() if seq >= log.first_seq}
        return sorted(
            seq for seq in log.digests.keys() | stored.keys() if log.digests.get(seq) != stored.get(seq)
        )

    def close_approval(self, session: str, approval: str) -> None:
        if session in self.logs:
            self.logs[session].checker.close_approval(approval)

    def forget(self, session: str) -> None:
        self.logs.pop(session, None)


def digest(entry: Entry) -> int:
    return hash(msgspec.json.encode(entry))


async def is_gone(client: AsyncClient, session: str) -> bool:
    try:
        await client.session(session)
    except NotFound:
        return True
    return False
