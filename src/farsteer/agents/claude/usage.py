"""Tokens and cost of a turn by model. Claude Code reports totals of the conversation, also of earlier processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from farsteer.agents.claude.protocol import ModelUsage, TokenCounts
from farsteer.core.events import UsageUpdate

_TOKENS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class UsageTracker:
    """The totals that are already reported."""

    def __init__(self) -> None:
        self._totals: dict[str, ModelUsage] = {}
        self._model: str | None = None
        self._context_used: int | None = None

    def go_on_from(self, totals: Mapping[str, ModelUsage]) -> None:
        """Take the totals of the earlier processes."""
        self._totals = dict(totals)

    def handle_request(self, model: str, usage: TokenCounts) -> None:
        """Note the last request of the main conversation: it has the size of the context."""
        self._model = model
        self._context_used = usage.context or self._context_used

    def handle_compaction(self, tokens: int | None) -> None:
        self._context_used = tokens

    def handle_result(self, totals: Mapping[str, ModelUsage]) -> Iterator[UsageUpdate]:
        """Return what was added since the last result, an update for each model."""
        for model, total in totals.items():
            before = self._totals.get(model, ModelUsage())
            if total.input_tokens < before.input_tokens or total.output_tokens < before.output_tokens:
                # The totals of an earlier process were not stored, so that they begin anew.
                before = ModelUsage()
            added = {name: max(getattr(total, name) - getattr(before, name), 0) for name in _TOKENS}
            cost = max(total.cost_usd - before.cost_usd, 0.0)
            self._totals[model] = total
            if not any(added.values()) and not cost:
                continue
            is_main = model == self._model or len(totals) == 1
            yield UsageUpdate(
                input_tokens=added["input_tokens"], output_tokens=added["output_tokens"],
                cache_read_tokens=added["cache_read_input_tokens"],
                cache_write_tokens=added["cache_creation_input_tokens"],
                context_used=self._context_used if is_main else None,
                context_size=total.context_window if is_main else None, cost_usd=round(cost, 8), model=model,
            )  # fmt: skip
