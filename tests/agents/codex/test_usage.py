"""Tokens of a turn from totals of threads."""

from __future__ import annotations

from farsteer.agents.codex.protocol import TokenCounts, TokenUsage
from farsteer.agents.codex.usage import UsageTracker
from farsteer.core.events import UsageUpdate


def usage(total: int, last: int, cached: int = 0, reasoning: int = 0) -> TokenUsage:
    return TokenUsage(
        total=TokenCounts(input_tokens=total, output_tokens=total // 10, cached_input_tokens=cached),
        last=TokenCounts(
            total_tokens=last, input_tokens=last, output_tokens=last // 10, cached_input_tokens=cached,
            reasoning_output_tokens=reasoning,
        ),
        model_context_window=1000,
    )  # fmt: skip


def add(
    tracker: UsageTracker, given: TokenUsage, thread: str = "main", *, is_new: bool = True
) -> UsageUpdate | None:
    return tracker.update(thread, given, is_main=thread == "main", is_new=is_new)


def test_an_update_is_what_was_added() -> None:
    tracker = UsageTracker()
    first, second = add(tracker, usage(100, 100)), add(tracker, usage(300, 200))
    assert first is not None
    assert second is not None
    assert (first.input_tokens, second.input_tokens, second.output_tokens) == (100, 200, 20)
    assert (second.context_used, second.context_size) == (200, 1000)


def test_a_repetition_adds_nothing() -> None:
    tracker = UsageTracker()
    add(tracker, usage(100, 100))
    assert add(tracker, usage(100, 100)) is None


def test_what_earlier_processes_used_is_not_counted_again() -> None:
    tracker = UsageTracker()
    assert add(tracker, usage(500, 100), is_new=False) is None
    update = add(tracker, usage(600, 100))
    assert update is not None
    assert update.input_tokens == 100


def test_of_an_unknown_total_only_the_last_call_counts() -> None:
    update = add(UsageTracker(), usage(900, 100))
    assert update is not None
    assert update.input_tokens == 100


def test_a_reverted_thread_goes_on_from_a_smaller_total() -> None:
    tracker = UsageTracker()
    add(tracker, usage(200, 100), is_new=False)
    tracker.forget("main")
    update = add(tracker, usage(200, 100))
    assert update is not None
    assert update.input_tokens == 100


def test_cached_tokens_are_not_among_the_input() -> None:
    update = add(UsageTracker(), usage(100, 100, cached=70))
    assert update is not None
    assert (update.input_tokens, update.cache_read_tokens) == (30, 70)


def test_tokens_of_thoughts_are_kept() -> None:
    update = add(UsageTracker(), usage(100, 100, reasoning=7))
    assert update is not None
    assert update.meta == {"reasoningTokens": 7}


def test_a_sub_agent_has_a_total_of_its_own_and_no_context() -> None:
    tracker = UsageTracker()
    add(tracker, usage(1000, 100))
    update = add(tracker, usage(100, 100), "child")
    assert update is not None
    assert (update.input_tokens, update.context_used, update.context_size) == (100, None, None)
