"""Permission mode, model and reasoning effort of a running Claude Code.

Claude Code runs in one of its asking modes, and we answer what it asks for by our mode. Its mode `bypassPermissions` is
not used: it has to be allowed at the start, and not by root. In the modes that change nothing, a hook before each tool
call denies what changes something, also what the owner's settings allow without asking.
"""

from __future__ import annotations

from farsteer.core.modes import PermissionMode, ReasoningEffort

_NATIVE = {
    PermissionMode.DEFAULT: "default",
    PermissionMode.ACCEPT_EDITS: "acceptEdits",
    PermissionMode.PLAN: "plan",
    PermissionMode.READ_ONLY: "default",
    PermissionMode.SAFE_YOLO: "acceptEdits",
    PermissionMode.YOLO: "acceptEdits",
    PermissionMode.BYPASS: "acceptEdits",
}
_OURS = {
    "default": PermissionMode.DEFAULT,
    "acceptEdits": PermissionMode.ACCEPT_EDITS,
    "plan": PermissionMode.PLAN,
    "bypassPermissions": PermissionMode.BYPASS,
}
READ_ONLY_MODES = frozenset({PermissionMode.PLAN, PermissionMode.READ_ONLY})
UNLIMITED_MODES = frozenset({PermissionMode.YOLO, PermissionMode.BYPASS})


def native_mode(mode: PermissionMode) -> str:
    return _NATIVE[mode]


class SettingsTracker:
    """The settings that the runner wants and that Claude Code has."""

    def __init__(self, mode: PermissionMode, model: str | None, effort: ReasoningEffort | None) -> None:
        self.mode = mode
        self.model = model
        self.effort = effort
        self._native = native_mode(mode)
        self._expected: list[str] = []
        """Modes that we have set and that Claude Code will report, which it does after it has answered."""

    @property
    def is_read_only(self) -> bool:
        return self.mode in READ_ONLY_MODES

    def set_mode(self, mode: PermissionMode) -> None:
        """Note a mode that Claude Code is being told."""
        self.mode = mode
        native = native_mode(mode)
        if native != self._native:
            self._native = native
            self._expected.append(native)

    def forget_reports(self) -> None:
        """Expect no further report of a mode that was set before."""
        self._expected.clear()

    def handle_mode(self, native: str) -> PermissionMode | None:
        """Take a mode that Claude Code reports. Returns the new mode if it has changed by itself."""
        if native in self._expected:
            del self._expected[: self._expected.index(native) + 1]
            return None
        self._native = native
        if native == native_mode(self.mode):
            return None
        mode = _OURS.get(native)
        if mode is not None:
            self.mode = mode
        return mode
