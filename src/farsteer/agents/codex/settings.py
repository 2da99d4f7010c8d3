"""Permission mode, model and reasoning effort of a Codex thread.

A mode is an approval policy and a sandbox. In the modes that ask, a command runs in a sandbox without writing and
without a network, unless the model asks to run it outside of it, which becomes a request. If a command fails in the
sandbox, Codex asks to run it again outside only if it noticed the failure at once; otherwise the model sees the failure
and asks itself. `tool_permission` decides which of the requests reach a person. (The policy `untrusted` asks for each
`ls` too.)
"""

from __future__ import annotations

from typing import Any

from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.wire import WireStruct

READ_ONLY_MODES = frozenset({PermissionMode.PLAN, PermissionMode.READ_ONLY})

_ON_REQUEST, _NEVER = "on-request", "never"
_ASK: dict[str, Any] = {
    "granular": {
        "sandbox_approval": True, "rules": True, "mcp_elicitations": True, "request_permissions": True,
        "skill_approval": True,
    }
}  # fmt: skip
"""Like `on-request`, and Codex may also ask when a command fails in the sandbox."""
_READ_ONLY, _WORKSPACE, _FULL = "read-only", "workspace-write", "danger-full-access"
_MODES: dict[PermissionMode, tuple[Any, str]] = {
    PermissionMode.DEFAULT: (_ASK, _READ_ONLY),
    PermissionMode.ACCEPT_EDITS: (_ASK, _READ_ONLY),
    PermissionMode.PLAN: (_ON_REQUEST, _READ_ONLY),
    PermissionMode.READ_ONLY: (_ON_REQUEST, _READ_ONLY),
    PermissionMode.SAFE_YOLO: (_NEVER, _WORKSPACE),
    PermissionMode.YOLO: (_NEVER, _FULL),
    PermissionMode.BYPASS: (_NEVER, _FULL),
}
_POLICY_TYPES = {_READ_ONLY: "readOnly", _WORKSPACE: "workspaceWrite", _FULL: "dangerFullAccess"}


class ThreadSettings(WireStruct):
    """What Codex reports when a thread is opened."""

    model: str | None = None
    reasoning_effort: str | None = None
    sandbox: dict[str, Any] = {}
    collaboration_mode: dict[str, Any] | None = None


class SettingsTracker:
    """The settings that the runner wants, as parameters of requests."""

    def __init__(
        self,
        mode: PermissionMode,
        model: str | None,
        effort: ReasoningEffort | None,
        roots: tuple[str, ...] = (),
    ) -> None:
        self.mode = mode
        self.model = model
        self.effort = effort
        self._roots = roots
        """Directories besides the working directory that Codex may write to."""
        self._workspace: dict[str, Any] | None = None
        """The workspace sandbox with the owner's own settings, such as network access, if Codex has reported it."""
        self._sandbox: str | None = None
        """The type of the sandbox that Codex has."""
        self._actual_model: str | None = None
        self._plans = False
        """Codex is in its own plan mode."""

    @property
    def is_read_only(self) -> bool:
        return self.mode in READ_ONLY_MODES

    @property
    def allows_everything(self) -> bool:
        return _MODES[self.mode][1] == _FULL

    def thread_params(self) -> dict[str, Any]:
        """Return the settings as parameters of a request that opens a thread."""
        policy, sandbox = _MODES[self.mode]
        params: dict[str, Any] = {"approvalPolicy": policy, "approvalsReviewer": "user", "sandbox": sandbox}
        if self.model is not None:
            params["model"] = self.model
        return params

    def handle_opened(self, reported: ThreadSettings) -> None:
        self._sandbox = reported.sandbox.get("type")
        self._actual_model = reported.model
        mode = reported.collaboration_mode or {}
        self._plans = mode.get("mode") == "plan"
        if self._sandbox == _POLICY_TYPES[_WORKSPACE]:
            self._workspace = reported.sandbox

    def turn_params(self) -> dict[str, Any]:
        """Return the settings as parameters of a turn. They stay for later turns."""
        policy, sandbox = _MODES[self.mode]
        params: dict[str, Any] = {"approvalPolicy": policy, "approvalsReviewer": "user"}
        kind = _POLICY_TYPES[sandbox]
        if kind != self._sandbox:
            params["sandboxPolicy"] = self._policy(kind)
        if self.model is not None:
            params["model"] = self.model
        if self.effort is not None:
            params["effort"] = self.effort.value
        plans, model = self.mode is PermissionMode.PLAN, self.model or self._actual_model
        if (plans or self._plans) and model is not None:
            # It replaces the model and the effort of the turn, so that it names them too.
            effort = None if self.effort is None else self.effort.value
            params["collaborationMode"] = {
                "mode": "plan" if plans else "default",
                "settings": {"model": model, "reasoning_effort": effort, "developer_instructions": None},
            }
        return params

    def turn_accepted(self) -> None:
        """Codex has taken over the settings of the last `turn_params`."""
        self._sandbox = _POLICY_TYPES[_MODES[self.mode][1]]
        self._plans = self.mode is PermissionMode.PLAN

    def _policy(self, kind: str) -> dict[str, Any]:
        if kind != _POLICY_TYPES[_WORKSPACE]:
            return {"type": kind}
        return self._workspace or {"type": kind, "writableRoots": list(self._roots)}
