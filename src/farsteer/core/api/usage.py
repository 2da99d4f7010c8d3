"""Bodies about usage."""

from __future__ import annotations

from typing import Literal

from farsteer.core.api.base import ResponseBody

UsageGrouping = Literal["day", "model", "session", "agent", "machine", "turn"]


class UsageTotal(ResponseBody):
    turns: int
    """The number of turns that used tokens. A turn counts on the day it began."""
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float


class UsageGroup(ResponseBody):
    key: str | None
    """The day (UTC) or the id of the group. None stands for an unnamed model or for deleted sessions."""
    turns: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float


class UsageResponse(ResponseBody):
    groups: list[UsageGroup]
    total: UsageTotal
    """The sum over all groups, including those left out when `truncated` is true."""
    truncated: bool
