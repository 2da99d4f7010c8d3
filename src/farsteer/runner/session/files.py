"""Keeping an agent from its files while somebody else changes them."""

from __future__ import annotations

from dataclasses import dataclass

from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.events import Notice
from farsteer.core.session import Worktree
from farsteer.runner.session.log import SessionLog

_MAX_HANDED_OFF = 100


@dataclass(frozen=True, slots=True)
class HoldFiles:
    """Begin no turn until as many `ReleaseFiles` have come. Refused if one runs."""


@dataclass(frozen=True, slots=True)
class ReleaseFiles:
    pass


@dataclass(frozen=True, slots=True)
class NoteChange:
    """Say in the log what was done with the worktree or the session."""

    text: str
    worktree: Worktree | None = None
    """What is known of it from now on, if that has changed."""
    handed_off_to: str | None = None
    """The session that this one was handed over to."""


FileCommand = HoldFiles | ReleaseFiles | NoteChange
"""Commands of the runner itself. No hub sends them."""


class HeldFiles:
    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._holds = 0

    @property
    def are_held(self) -> bool:
        return self._holds > 0

    def execute(self, command: FileCommand, *, is_busy: bool) -> None:
        """Raises Conflict (`turn_running`) if the files are to be held and the agent is busy."""
        match command:
            case HoldFiles():
                if is_busy:
                    raise Conflict(
                        "a turn is running: wait for its end or abort it",
                        code=ErrorCode.TURN_RUNNING,
                        session=self._log.state.id,
                    )
                self._holds += 1
            case ReleaseFiles():
                self._holds -= 1
            case NoteChange():
                self._log.add(Notice(text=command.text))
                if command.worktree is not None:
                    self._log.update_private_state(worktree=command.worktree)
                if command.handed_off_to is not None:
                    known = (*self._log.state.handed_off_to, command.handed_off_to)
                    self._log.update_private_state(handed_off_to=known[:_MAX_HANDED_OFF])
