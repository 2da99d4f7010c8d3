"""Token usage: Droid reports totals of a session, our events hold what was added."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from farsteer.agents.droid.protocol import TokenUsage
from farsteer.core.events import UsageUpdate
from farsteer.core.wire import encode


class UsageStore:
    """The last total that was emitted for each conversation, on disk.

    Older CLIs report the usage after the turn. If the process ends before that, the rest is emitted when the
    conversation is next opened.
    """

    def __init__(self, state_dir: str) -> None:
        self._folder = Path(state_dir) / "usage" if state_dir else None

    def load(self, session_id: str | None) -> TokenUsage | None:
        path = self._path(session_id)
        with suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(path.read_bytes(), type=TokenUsage) if path else None
        return None

    def save(self, session_id: str | None, total: TokenUsage) -> None:
        """Ignores errors: a lost total makes the statistics slightly wrong, which must not fail a turn."""
        path = self._path(session_id)
        if path is None:
            return
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            draft = path.with_suffix(".new")
            draft.write_bytes(encode(total))
            os.replace(draft, path)

    def delete(self, session_id: str) -> None:
        path = self._path(session_id)
        if path is not None:
            path.unlink(missing_ok=True)

    def _path(self, session_id: str | None) -> Path | None:
        if self._folder is None or session_id is None:
            return None
        # Hashed because Droid chooses the id: it may not be a valid file name.
        return self._folder / hashlib.sha256(session_id.encode()).hexdigest()


class UsageTracker:
    """Keeps the last total of each session of a launch; a plan may be carried out in a new session."""

    def __init__(self, store: UsageStore) -> None:
        self._store = store
        self._totals: dict[str | None, TokenUsage] = {}
        self._turn_started = False
        """Before the first turn nothing is saved: a prewarmed launch may be discarded with its output."""

    def start_session(self, session_id: str | None, total: TokenUsage | None) -> UsageUpdate | None:
        """Return the usage that an earlier launch did not emit. Usage before our first launch is not reported."""
        emitted = self._store.load(session_id)
        self._totals[session_id] = emitted or total or TokenUsage()
        return self.update(session_id, total) if emitted is not None and total is not None else None

    def start_turn(self, session_id: str | None) -> None:
        self._turn_started = True
        self._store.save(session_id, self._totals.get(session_id, TokenUsage()))

    def update(
        self, session_id: str | None, total: TokenUsage, last_call: TokenUsage | None = None
    ) -> UsageUpdate | None:
        """Return what was added since the last total, None if nothing was."""
        before = msgspec.structs.asdict(self._totals.get(session_id, TokenUsage()))
        # Totals with and without subagents alternate, so a lower total subtracts nothing.
        after = {name: max(count, before[name]) for name, count in msgspec.structs.asdict(total).items()}
        added = TokenUsage(**{name: count - before[name] for name, count in after.items()})
        self._totals[session_id] = TokenUsage(**after)
        if added == TokenUsage():
            return None
        if self._turn_started:
            self._store.save(session_id, self._totals[session_id])
        context_used = None
        if last_call is not None:
            context_used = last_call.input_tokens + last_call.cache_read_tokens + last_call.output_tokens
        return UsageUpdate(
            input_tokens=added.input_tokens, output_tokens=added.output_tokens,
            cache_read_tokens=added.cache_read_tokens, cache_write_tokens=added.cache_creation_tokens,
            context_used=context_used,
            meta={"thinkingTokens": added.thinking_tokens} if added.thinking_tokens else None,
        )  # fmt: skip
