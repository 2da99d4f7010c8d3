"""What the next launch is told, and what is changed when an agent says that our idea of its conversation is wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

from farsteer.agents.base import Adapter, LaunchPlan
from farsteer.agents.environment import LAUNCH, LaunchMark
from farsteer.core.errors import ErrorCode
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchDecision, LaunchMode, LaunchRow, decide_launch
from farsteer.core.session import SessionSpec, SessionState

PLACE_UNKNOWN = "The agent does not know the place to go back to; it still remembers what was removed."


class Recovery(NamedTuple):
    """How the stored row is set right, and what a person is told."""

    changes: dict[str, Any]
    notice: str | None = None


def decision(state: SessionState, adapter: Adapter, state_dir: str) -> LaunchDecision:
    return decide_launch(
        LaunchRow(
            session_id=state.id, agent=state.agent, native_id=state.native_id, registered=state.registered
        ),
        agent=adapter.name,
        caller_chosen_id=adapter.capabilities.caller_chosen_id,
        transcript_found=not state.registered
        and adapter.has_transcript(state.native_id or state.id, state_dir),
        spare_id=new_id(),
    )


def plan(
    spec: SessionSpec, state: SessionState, adapter: Adapter, *, state_dir: str, environment: dict[str, str],
    startup: float, home: str,
) -> LaunchPlan:  # fmt: skip
    decided = decision(state, adapter, state_dir)
    fork_of = state.fork_of if decided.start is LaunchMode.CREATE else None
    cuts = fork_of is not None or decided.start is LaunchMode.RESUME
    generation = state.generation + 1
    environment = {**environment, LAUNCH: str(LaunchMark(home, generation, state.id))}
    return LaunchPlan(
        session_id=state.id, directory=state.directory, generation=generation, decision=decided,
        permission_mode=state.permission_mode, model=state.model, effort=state.effort, source=spec.source,
        options=spec.options, environment=environment, state_dir=state_dir, startup_timeout=startup,
        fork_of=fork_of, cut_at=state.cut_at if cuts else None, mcp_servers=spec.mcp_servers,
        additional_directories=spec.additional_directories,
    )  # fmt: skip


def recovery(code: ErrorCode, used: LaunchPlan, state: SessionState, adapter: Adapter) -> Recovery | None:
    """What to change before the one retry; None if another try would end the same way.

    None of these makes a new session, and none touches the visible history.
    """
    forks = used.fork_of is not None
    match code:
        case ErrorCode.ANCHOR_UNKNOWN if used.cut_at is not None:
            return Recovery(
                {"cut_at": None},
                PLACE_UNKNOWN,
            )
        case ErrorCode.CONVERSATION_IN_USE if used.decision.start is LaunchMode.CREATE:
            known = used.decision.native_id or state.native_id
            return Recovery({"native_id": known, "registered": True, "fork_of": None}) if known else None
        case ErrorCode.CONVERSATION_MISSING if forks or used.decision.start is LaunchMode.RESUME:
            kept = state.native_id if adapter.capabilities.caller_chosen_id else None
            changes = {"registered": False, "native_id": kept, "fork_of": None, "cut_at": None}
            return Recovery(
                changes, "The agent no longer has this conversation; it goes on without remembering it."
            )
        case _:
            return None
