"""How each version of Droid behaves, as far as that was observed or written down."""

from __future__ import annotations

import msgspec

from farsteer.faces.droid.dialect import DIALECTS, Dialect


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    dialect: Dialect
    completes: bool = False
    """Says `agent_turn_completed`, and all that came with it: phases, completed blocks, thinking."""
    closes: bool = False
    """Knows `close_session`, `list_models`, `rename_session` and `get_context_stats`."""
    copies: bool = False
    """Knows `fork_session`, `execute_rewind` and `compact_session`."""
    flags_errors: bool = False
    """A result says whether it is an error; before, only its text does."""
    hints: int = 0
    """How often a tool call is told before its message."""
    late_hints: int = 0
    """And after it was allowed."""
    reminders_apart: bool = False
    """Reminders to the model are in messages of their own."""
    needs_session: bool = False
    """`load_session` wants any session to be there first."""
    answers_twice: bool = False
    """A message without a session is acknowledged, and then refused."""
    names_plans: bool = True
    """The details of a plan name its alternatives."""
    hands_over: bool = False
    """A plan may be carried out in a new session."""
    waits_for_answers: bool = False
    """Answers of a wrong shape are waited out."""
    idle_early: bool = False
    """Says that it is idle before its last message."""

    @property
    def levels(self) -> bool:
        return self.dialect.levels


PROFILES = {
    profile.dialect.version: profile
    for profile in (
        Profile(dialect=DIALECTS["0.36"], needs_session=True, waits_for_answers=True, idle_early=True),
        Profile(dialect=DIALECTS["0.57"], needs_session=True, waits_for_answers=True),
        Profile(
            dialect=DIALECTS["0.99"], copies=True, flags_errors=True, hints=3, late_hints=1, answers_twice=True
        ),
        Profile(
            dialect=DIALECTS["0.215"], completes=True, closes=True, copies=True, flags_errors=True, hints=2,
            reminders_apart=True, answers_twice=True, names_plans=False, hands_over=True,
        ),
    )
}  # fmt: skip
