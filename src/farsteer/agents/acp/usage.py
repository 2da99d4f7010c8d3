"""Tokens that a turn has used. Agents report them in several places."""

from __future__ import annotations

from typing import Any

from farsteer.agents.acp.protocol import PromptEnded, TokensUsed
from farsteer.core.events import UsageUpdate
from farsteer.jsonrpc.messages import as_object


def turn_usage(ended: PromptEnded) -> UsageUpdate | None:
    """Return what the answer to a prompt says: in its own field, or in `_meta` as Grok and Gemini do."""
    if ended.usage is not None:
        return _update(ended.usage)
    meta = ended.meta or {}
    counted = as_object((as_object(meta.get("quota")) or {}).get("token_count"))
    if counted is not None:
        return from_counts(
            {"inputTokens": counted.get("input_tokens"), "outputTokens": counted.get("output_tokens")}
        )
    return from_counts(meta)


def from_counts(values: dict[str, Any]) -> UsageUpdate | None:
    """Return the update for counts by name, None if there are none."""
    return _update(
        TokensUsed(
            input_tokens=_count(values, "inputTokens"), output_tokens=_count(values, "outputTokens"),
            cached_read_tokens=_count(values, "cachedReadTokens"),
            cached_write_tokens=_count(values, "cachedWriteTokens"),
            thought_tokens=_count(values, "thoughtTokens") or _count(values, "reasoningTokens"),
        )
    )  # fmt: skip


def _update(used: TokensUsed) -> UsageUpdate | None:
    """The input includes what was read from the cache."""
    read, written = max(used.cached_read_tokens or 0, 0), max(used.cached_write_tokens or 0, 0)
    if not any((used.input_tokens, used.output_tokens, read, written)):
        return None
    return UsageUpdate(
        input_tokens=max(used.input_tokens - read, 0), output_tokens=max(used.output_tokens, 0),
        cache_read_tokens=read, cache_write_tokens=written,
        meta={"reasoningTokens": used.thought_tokens} if used.thought_tokens else None,
    )  # fmt: skip


def _count(values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
