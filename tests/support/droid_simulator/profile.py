"""How each version of Droid behaves, as far as that was observed or documented."""

from __future__ import annotations

import msgspec

from farsteer.faces.droid.protocol import DIALECTS, Dialect


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    dialect: Dialect
    completes_turns: bool = False
    """Sends `agent_turn_completed` and everything that came with it: phases, completed blocks, thinking."""
    can_close: bool = False
    """Has `close_session`, `list_models` and `rename_session`."""
    can_copy: bool = False
    """Has `fork_session`, `execute_rewind` and `get_rewind_info`."""
    flags_errors: bool = False
    """A tool result says whether it is an error; before, only its text does."""
    tool_calls_before_message: int = 0
    """How often a tool call is announced before its message."""
    tool_calls_after_approval: int = 0
    """How often it is announced again after it was allowed."""
    separates_reminders: bool = False
    """Reminders to the model are in messages of their own."""
    needs_session: bool = False
    """`load_session` needs any session to be open first."""
    answers_twice: bool = False
    """A message without a session is acknowledged and then refused."""
    names_plans_in_details: bool = True
    """The details of a plan's confirmation name its alternatives."""
    hands_off_plans: bool = False
    """A plan may be carried out in a new session."""
    repeats_question: bool = False
    """Asks again if the answer to a questionnaire is malformed."""
    idle_early: bool = False
    """Reports that it is idle before its last message."""

    @property
    def has_levels(self) -> bool:
        return self.dialect.has_levels


PROFILES = {
    profile.dialect.version: profile
    for profile in (
        Profile(dialect=DIALECTS["0.36"], needs_session=True, repeats_question=True, idle_early=True),
        Profile(dialect=DIALECTS["0.57"], needs_session=True, repeats_question=True),
        Profile(
            dialect=DIALECTS["0.99"], can_copy=True, flags_errors=True, tool_calls_before_message=3,
            tool_calls_after_approval=1, answers_twice=True,
        ),
        Profile(
            dialect=DIALECTS["0.215"], completes_turns=True, can_close=True, can_copy=True, flags_errors=True,
            tool_calls_before_message=2, separates_reminders=True, answers_twice=True,
            names_plans_in_details=False, hands_off_plans=True,
        ),
    )
}  # fmt: skip
