"""Tokens: Droid reports totals of a session, the log holds what was added."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from farsteer.agents.droid.notes import Tokens
from farsteer.core.events import UsageUpdate
from farsteer.core.wire import encode


class Ledger:
    """The last total that was told of each conversation, on disk.

    Older CLIs count when the turn is over, and one that is ended before that has told nobody.
    """

    def __init__(self, state_dir: str) -> None:
        self._folder = Path(state_dir) / "usage" if state_dir else None

    def told(self, session: str | None) -> Tokens | None:
        path = self._path(session)
        with suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(path.read_bytes(), type=Tokens) if path else None
        return None

    def tell(self, session: str | None, total: Tokens) -> None:
        """A ledger that cannot be written costs a few tokens in the statistics, not a turn."""
        path = self._path(session)
        if path is None:
            return
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            beside = path.with_suffix(".new")
            beside.write_bytes(encode(total))
            os.replace(beside, path)

    def forget(self, session: str) -> None:
        path = self._path(session)
        if path is not None:
            path.unlink(missing_ok=True)

    def _path(self, session: str | None) -> Path | None:
        if self._folder is None or session is None:
            return None
        # A native id is Droid's to choose: it may be no name for a file.
        return self._folder / hashlib.sha256(session.encode()).hexdigest()


class Meter:
    """Keeps the last total of each session, for a plan may be carried on in another one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._totals: dict[str | None, Tokens] = {}
        self._running = False
        """Somebody hears us: before the first turn what we say may come to nothing."""

    def begin(self, session: str | None, total: Tokens | None) -> UsageUpdate | None:
        """What was used and never told. What was used before we came is not ours to report."""
        told = self._ledger.told(session)
        self._totals[session] = told or total or Tokens()
        return self.read(session, total) if told is not None and total is not None else None

    def turn(self, session: str | None) -> None:
        """A turn begins."""
        self._running = True
        self._ledger.tell(session, self._totals.get(session, Tokens()))

    def read(self, session: str | None, total: Tokens, last_call: Tokens | None = None) -> UsageUpdate | None:
        """What was added since the last reading, if anything."""
        before = msgspec.structs.asdict(self._totals.get(session, Tokens()))
        # Totals with and without subagents come in turns: what was counted once is not counted again.
        after = {name: max(count, before[name]) for name, count in msgspec.structs.asdict(total).items()}
        added = Tokens(**{name: count - before[name] for name, count in after.items()})
        self._totals[session] = Tokens(**after)
        if added == Tokens():
            return None
        if self._running:
            self._ledger.tell(session, self._totals[session])
        used = None
        if last_call is not None:
            used = last_call.input_tokens + last_call.cache_read_tokens + last_call.output_tokens
        return UsageUpdate(
            input_tokens=added.input_tokens, output_tokens=added.output_tokens,
            cache_read_tokens=added.cache_read_tokens, cache_write_tokens=added.cache_creation_tokens,
            context_used=used, meta={"thinkingTokens": added.thinking_tokens} if added.thinking_tokens else None,
        )  # fmt: skip
