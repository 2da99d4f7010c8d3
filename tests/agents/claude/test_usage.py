"""Tokens and cost of each turn, from totals."""

from __future__ import annotations

from farsteer.agents.claude.protocol import ModelUsage, TokenCounts
from farsteer.agents.claude.usage import UsageTracker


def total(tokens: int, cost: float = 0.0) -> ModelUsage:
    return ModelUsage(input_tokens=tokens, output_tokens=tokens // 10, cost_usd=cost, context_window=200_000)


def test_each_turn_has_what_it_added() -> None:
    usage = UsageTracker()
    (first,) = usage.handle_result({"opus": total(100, 0.1)})
    (second,) = usage.handle_result({"opus": total(250, 0.15)})
    assert (first.input_tokens, first.output_tokens, first.cost_usd) == (100, 10, 0.1)
    assert (second.input_tokens, second.output_tokens, second.cost_usd) == (150, 15, 0.05)


def test_a_resumed_conversation_goes_on_from_the_stored_totals() -> None:
    usage = UsageTracker()
    usage.go_on_from({"opus": total(1000, 1.0)})
    (update,) = usage.handle_result({"opus": total(1100, 1.1)})
    assert (update.input_tokens, update.cost_usd) == (100, 0.1)


def test_totals_that_begin_anew_are_counted_whole() -> None:
    usage = UsageTracker()
    usage.go_on_from({"opus": total(1000, 1.0)})
    (update,) = usage.handle_result({"opus": total(100, 0.1)})
    assert (update.input_tokens, update.cost_usd) == (100, 0.1)


def test_each_model_is_counted_and_only_the_main_one_has_the_context() -> None:
    usage = UsageTracker()
    usage.handle_request("opus", TokenCounts(input_tokens=5, cache_read_input_tokens=90, output_tokens=5))
    opus, haiku = usage.handle_result({"opus": total(100), "haiku": total(50)})
    assert (opus.model, opus.context_used, opus.context_size) == ("opus", 100, 200_000)
    assert (haiku.model, haiku.context_used, haiku.context_size) == ("haiku", None, None)


def test_a_model_that_was_not_used_again_is_not_reported_again() -> None:
    usage = UsageTracker()
    assert len([*usage.handle_result({"opus": total(100), "haiku": total(50)})]) == 2
    assert [update.model for update in usage.handle_result({"opus": total(200), "haiku": total(50)})] == [
        "opus"
    ]


def test_after_a_compaction_the_context_is_small() -> None:
    usage = UsageTracker()
    usage.handle_request("opus", TokenCounts(input_tokens=150_000))
    usage.handle_compaction(2_000)
    (update,) = usage.handle_result({"opus": total(100)})
    assert update.context_used == 2_000
