"""Tokens: Droid reports totals of a session, the log holds what was added."""

from __future__ import annotations

import msgspec

from farsteer.agents.droid.notes import Tokens
from farsteer.core.events import UsageUpdate


class Meter:
    """Keeps the last total of each session, for a plan may be carried on in another one."""

    def __init__(self) -> None:
        self._totals: dict[str | None, Tokens] = {}

    def begin(self, session: str | None, total: Tokens | None) -> None:
        """What was used before we came is not ours to report."""
        self._totals[session] = total or Tokens()

    def read(self, session: str | None, total: Tokens, last_call: Tokens | None = None) -> UsageUpdate | None:
        """What was added since the last reading, if anything."""
        before = msgspec.structs.asdict(self._totals.get(session, Tokens()))
        # Totals with and without subagents come in turns: what was counted once is not counted again.
        after = {name: max(count, before[name]) for name, count in msgspec.structs.asdict(total).items()}
        added = Tokens(**{name: count - before[name] for name, count in after.items()})
        self._totals[session] = Tokens(**after)
        if added == Tokens():
            return None
        used = None
        if last_call is not None:
            used = last_call.input_tokens + last_call.cache_read_tokens + last_call.output_tokens
        return UsageUpdate(
            input_tokens=added.input_tokens, output_tokens=added.output_tokens,
            cache_read_tokens=added.cache_read_tokens, cache_write_tokens=added.cache_creation_tokens,
            context_used=used, meta={"thinkingTokens": added.thinking_tokens} if added.thinking_tokens else None,
        )  # fmt: skip
