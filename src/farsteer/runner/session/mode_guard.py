"""Keeps an agent in the permission mode that a person chose."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import msgspec

from farsteer.core import events as ev
from farsteer.core.modes import PermissionMode, loosens
from farsteer.runner.session.log import SessionLog

MODE_RESTORED = "mode_restored"
"""The code of the notice that tells of it."""
_MAX_RESTORED = 3


class ModeGuard:
    """Compares the mode that the agent reports with what a person has allowed.

    An agent may make its own mode stricter, and undo that. Loosening it takes a person: one who sets the mode, or whose
    answer to an approval grants one. A mode that is loosened without that is not logged as the session's, and must be
    put back.
    """

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._chosen = log.state.permission_mode
        """The mode that a person chose last."""
        self._granted: PermissionMode | None = None
        """The mode that an answer in this turn has granted. The agent switches to it by itself."""
        self._restored = 0
        self.must_restore = False
        """The agent has loosened its mode, and has to be put back into `allowed`."""

    @property
    def allowed(self) -> PermissionMode:
        """The loosest mode that the agent may be in."""
        granted = self._granted
        return granted if granted is not None and loosens(self._chosen, granted) else self._chosen

    @property
    def has_given_up(self) -> bool:
        """The agent loosens its mode again and again."""
        return self._restored > _MAX_RESTORED

    def choose(self, mode: PermissionMode) -> None:
        """A person has set the mode."""
        self._chosen, self._granted, self.must_restore = mode, None, False

    @contextmanager
    def granting(self, mode: PermissionMode | None) -> Generator[None]:
        """Let the agent switch to `mode` until the turn ends. An exception in the block takes that back.

        The agent may report its new mode before the call that tells it has returned.
        """
        before = self._granted
        if mode is not None:
            self._granted = mode
        try:
            yield
        except BaseException:
            self._granted = before
            raise

    def start_turn(self) -> None:
        self._restored, self._granted = 0, None

    def check(self, event: ev.ModeUpdate) -> ev.ModeUpdate | None:
        """Return what is left to log of an agent's report. A loosened mode is logged as a notice instead."""
        mode = event.permission_mode
        if mode is None:
            return event
        allowed = self.allowed
        if not loosens(allowed, mode):
            self.must_restore = False
            if loosens(self._chosen, mode):
                self._chosen = mode
            return event
        self._restored += 1
        self.must_restore = True
        text = f"The agent changed its permission mode to {mode} by itself. It is set back to {allowed}."
        meta = {"mode": mode.value, "restored": allowed.value}
        self._log.add(ev.Notice(text=text, level="warning", code=MODE_RESTORED, meta=meta))
        left = msgspec.structs.replace(event, permission_mode=None)
        return None if left.model is None and left.effort is None else left
