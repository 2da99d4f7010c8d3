"""Permission mode, model and reasoning effort of a Droid session.

Droid accepts some settings without obeying them, so what it reports is compared with what was requested. CLIs before
interaction modes have one word for interaction mode and level (`autonomyLevel: spec | auto-low`); the settings a CLI
reports tell which names it uses.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.agents.droid.models import KnownModels
from farsteer.agents.droid.protocol import Settings
from farsteer.core import droid
from farsteer.core.errors import BadRequest, ErrorCode
from farsteer.core.events import ModeUpdate, Notice, SessionEvent
from farsteer.core.modes import PermissionMode, ReasoningEffort

_TITLES = {"mode": "permission mode", "model": "model", "effort": "reasoning effort"}
_CODES = {"model": ErrorCode.MODEL_UNKNOWN, "effort": ErrorCode.EFFORT_UNKNOWN}


def mode_params(mode: PermissionMode, *, old_names: bool = False) -> dict[str, Any]:
    """Return the parameters that set a permission mode."""
    if old_names:
        return {"autonomyLevel": droid.autonomy_mode(mode)}
    return {"interactionMode": droid.interaction_mode(mode), "autonomyLevel": droid.autonomy_level(mode)}


def permission_mode_of(settings: Settings) -> PermissionMode | None:
    return droid.permission_mode(settings.interaction_mode, settings.autonomy_level, settings.autonomy_mode)


def _rank(mode: PermissionMode) -> int:
    return droid.AUTONOMY_LEVELS.index(droid.autonomy_level(mode))


def _is_same(one: PermissionMode, other: PermissionMode) -> bool:
    """Whether Droid has the same settings for both modes."""
    return mode_params(one) == mode_params(other)


class SettingsTracker:
    """Compares the settings that Droid reports with those the runner believes in, and emits the difference."""

    def __init__(
        self, mode: PermissionMode, model: str | None = None, effort: ReasoningEffort | None = None
    ) -> None:
        self.mode = mode
        self._model = model
        self._effort = effort
        self._actual = Settings()
        self._starting = True
        """While the session is opened, reported settings are not compared yet."""
        self._requested: dict[str, Any] = {}
        """What the open request asks for."""
        self._before_request = (mode, model, effort)
        self.models = KnownModels()

    @property
    def uses_old_names(self) -> bool:
        """This CLI has no interaction modes."""
        return self._actual.autonomy_level is not None and self._actual.interaction_mode is None

    @property
    def has_excess_autonomy(self) -> bool:
        """Droid asks less often than the permission mode demands."""
        actual = permission_mode_of(self._actual)
        return actual is not None and _rank(actual) > _rank(self.mode)

    def update(self, settings: Settings) -> None:
        """Take over the settings that Droid reports; absent ones stay as they are."""
        reported = {
            name: value for name, value in msgspec.structs.asdict(settings).items() if value is not None
        }
        self._actual = msgspec.structs.replace(self._actual, **reported)

    def check(self, model: str | None, effort: ReasoningEffort | None) -> None:
        """Raise BadRequest for a model or effort that Droid does not have. It would accept and ignore them."""
        self.models.check(model, effort, self._actual.model_id)

    def request(
        self,
        mode: PermissionMode | None = None,
        model: str | None = None,
        effort: ReasoningEffort | None = None,
    ) -> dict[str, Any]:
        """Begin a change and return the parameters of its request. `confirm` or `roll_back` must follow."""
        params: dict[str, Any] = {}
        self._before_request = (self.mode, self._model, self._effort)
        if mode is not None:
            self.mode = mode
            params |= mode_params(mode, old_names=self.uses_old_names)
        if model is not None:
            self._model = model
            params["modelId"] = model
        if effort is not None:
            self._effort = effort
            params["reasoningEffort"] = effort.value
        self._requested = {"mode": mode, "model": model, "effort": effort}
        return params

    def request_missing(self) -> dict[str, Any]:
        """Like `request`, for all settings that differ from what the runner wants; empty if none does."""
        different = self._differences()
        if not different:
            return {}
        return self.request(
            self.mode if "mode" in different else None,
            self._model if "model" in different else None,
            self._effort if "effort" in different else None,
        )

    def roll_back(self) -> None:
        """The request failed: the settings before it count again."""
        self._requested = {}
        self.mode, self._model, self._effort = self._before_request

    def ignored(self) -> BadRequest | None:
        """Return the error for a model or effort that the open request asks for and Droid has not taken.

        A mode is not meant: the runner watches over it, and has to learn the actual one.
        """
        for name, (wanted, actual) in self._differences().items():
            if self._requested.get(name) is not None and name in _CODES:
                return BadRequest(_ignored_text(name, wanted, actual), code=_CODES[name], field=name)
        return None

    def confirm(self) -> list[SessionEvent]:
        """The request succeeded: return a notice for each setting that Droid ignored, and the actual settings."""
        requested = {name for name, value in self._requested.items() if value is not None}
        events: list[SessionEvent] = [
            Notice(
                text=_ignored_text(name, wanted, actual), level="warning", code="setting_ignored",
                meta={"setting": name, "asked": wanted, "actual": actual},
            )
            for name, (wanted, actual) in self._differences().items()
            if name in requested
        ]  # fmt: skip
        if "model" in requested and self._model is not None and not self.models.knows(self._model):
            events.append(
                Notice(
                    text=f"Droid does not list the model {self._model}", level="warning", code="unknown_model",
                    meta={"model": self._model},
                )
            )  # fmt: skip
        self._requested, self._starting = {}, False
        change = self.take_change()
        return events if change is None else [*events, change]

    def take_change(self) -> ModeUpdate | None:
        """Return how the actual settings differ from what the runner believes, and believe the actual ones from now on.

        Returns None while a request is open: a change would repeat the request or the state before it.
        """
        if self._requested or self._starting:
            return None
        actual = self._actual
        mode, model, effort = permission_mode_of(actual), actual.model_id, _effort(actual.reasoning_effort)
        change = ModeUpdate(
            permission_mode=None if mode is None or _is_same(mode, self.mode) else mode,
            model=None if model == self._model else model,
            effort=None if effort == self._effort or self._effort is None else effort,
        )
        self.mode = change.permission_mode or self.mode
        self._model = change.model or self._model
        if actual.reasoning_effort is not None and self._effort is not None:
            self._effort = effort
        return None if change == ModeUpdate() else change

    def _differences(self) -> dict[str, tuple[str, str]]:
        """Return the wanted and the actual value of each setting that differs."""
        actual, different = self._actual, dict[str, tuple[str, str]]()
        mode = permission_mode_of(actual)
        if mode is not None and not _is_same(mode, self.mode):
            different["mode"] = (self.mode.value, mode.value)
        if self._model is not None and actual.model_id not in (None, self._model):
            different["model"] = (self._model, str(actual.model_id))
        if self._effort is not None and actual.reasoning_effort not in (None, self._effort.value):
            different["effort"] = (self._effort.value, str(actual.reasoning_effort))
        return different


def _ignored_text(name: str, wanted: str, actual: str) -> str:
    return f"Droid ignored the {_TITLES[name]} {wanted} and stays at {actual}"


def _effort(name: str | None) -> ReasoningEffort | None:
    return ReasoningEffort(name) if name in ReasoningEffort.__members__.values() else None
