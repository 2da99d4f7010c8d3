"""Tokens that a turn used. Codex reports the total of a thread, also what earlier processes used."""

from __future__ import annotations

from farsteer.agents.codex.protocol import TokenCounts, TokenUsage
from farsteer.core.events import UsageUpdate

_FIELDS = (
    "input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens", "reasoning_output_tokens",
)  # fmt: skip


class UsageTracker:
    """The totals of each thread of a launch."""

    def __init__(self) -> None:
        self._totals: dict[str | None, TokenCounts] = {}

    def forget(self, thread_id: str | None) -> None:
        """Forget the total of a thread that was reverted: it goes on from a smaller one."""
        self._totals.pop(thread_id, None)

    def update(
        self, thread_id: str | None, usage: TokenUsage, *, is_main: bool, is_new: bool
    ) -> UsageUpdate | None:
        """Return what was added since the last total, None if nothing was.

        Args:
            is_main: It is the session's own thread.
            is_new: The running turn used it.
        """
        before = self._totals.get(thread_id)
        self._totals[thread_id] = usage.total
        if not is_new:
            return None
        if before is None:
            # Of a total that we have not followed only the last call is surely new.
            added = {name: getattr(usage.last, name) for name in _FIELDS}
        else:
            added = {name: max(getattr(usage.total, name) - getattr(before, name), 0) for name in _FIELDS}
        if not any(added.values()):
            return None
        return UsageUpdate(
            input_tokens=max(added["input_tokens"] - added["cached_input_tokens"], 0),
            output_tokens=added["output_tokens"], cache_read_tokens=added["cached_input_tokens"],
            cache_write_tokens=added["cache_write_input_tokens"],
            context_used=usage.last.total_tokens if is_main else None,
            context_size=usage.model_context_window if is_main else None,
            meta={"reasoningTokens": added["reasoning_output_tokens"]} if added["reasoning_output_tokens"] else None,
        )  # fmt: skip
