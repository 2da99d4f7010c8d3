"""The rules that hold for all that a launch ever says, checked over the whole of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from farsteer.agents.base import (
    ApprovalAsked,
    ApprovalWithdrawn,
    DeltaEmitted,
    EventEmitted,
    Exited,
    Output,
    TurnEnded,
)
from farsteer.core.events import AgentMessage, AgentThought


def audit(outputs: Sequence[Output], sent: Sequence[str]) -> None:
    """`outputs` of a launch that has ended; `sent`: the turns whose `send` returned."""
    _one_end_per_turn(outputs, sent)
    _nothing_after_the_exit(outputs)
    _fragments_make_the_message(outputs)
    _approvals_are_asked_once(outputs)


def _one_end_per_turn(outputs: Sequence[Output], sent: Sequence[str]) -> None:
    ended = Counter(output.turn_id for output in outputs if isinstance(output, TurnEnded))
    assert ended == Counter(sent), f"each turn ends exactly once: sent {list(sent)}, ended {dict(ended)}"


def _nothing_after_the_exit(outputs: Sequence[Output]) -> None:
    exits = [index for index, output in enumerate(outputs) if isinstance(output, Exited)]
    assert exits == [len(outputs) - 1], "`Exited` comes exactly once, as the last of all"


def _fragments_make_the_message(outputs: Sequence[Output]) -> None:
    streamed: dict[str, str] = {}
    finished: set[str] = set()
    for output in outputs:
        if isinstance(output, DeltaEmitted):
            delta = output.delta
            # At 0 it begins anew: the agent took back what it had streamed.
            known = streamed.get(delta.message_id, "") if delta.offset else ""
            assert delta.message_id not in finished, f"a fragment of {delta.message_id} comes after the whole"
            assert delta.offset == len(known), f"a fragment of {delta.message_id} has a wrong offset"
            streamed[delta.message_id] = known + delta.text
        elif isinstance(output, EventEmitted) and isinstance(output.event, AgentMessage | AgentThought):
            event = output.event
            assert event.message_id not in finished, f"message {event.message_id} is said twice"
            finished.add(event.message_id)
            known = streamed.get(event.message_id, event.text)
            assert known == event.text, f"message {event.message_id} differs from what was streamed of it"


def _approvals_are_asked_once(outputs: Sequence[Output]) -> None:
    asked: set[str] = set()
    for output in outputs:
        if isinstance(output, ApprovalAsked):
            assert output.approval.id not in asked, "an approval is asked twice"
            asked.add(output.approval.id)
        elif isinstance(output, ApprovalWithdrawn):
            assert output.approval_id in asked, "an approval is withdrawn that was never asked"
