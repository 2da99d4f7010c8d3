"""Our permission modes, model and reasoning effort in Droid's words, and back.

Droid accepts many a setting without obeying it, so what it says it has is compared with what was asked for. CLIs
before interaction modes had one word for both (`autonomyLevel: spec | auto-low`); what a CLI reports tells which
words it speaks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.agents.droid.notes import Settings
from farsteer.core.events import ModeUpdate, Notice, SessionEvent
from farsteer.core.modes import PermissionMode, ReasoningEffort

_LEVELS = {
    PermissionMode.DEFAULT: "off",
    PermissionMode.READ_ONLY: "off",
    PermissionMode.PLAN: "off",
    PermissionMode.ACCEPT_EDITS: "low",
    PermissionMode.SAFE_YOLO: "medium",
    PermissionMode.YOLO: "high",
    PermissionMode.BYPASS: "high",
}
"""Low: file edits and read-only commands. Medium: what can be undone. High: everything."""
_MODES = {
    "off": PermissionMode.DEFAULT,
    "low": PermissionMode.ACCEPT_EDITS,
    "medium": PermissionMode.SAFE_YOLO,
    "high": PermissionMode.YOLO,
}
_ORDER = ("off", "low", "medium", "high")
_NAMES = {"mode": "permission mode", "model": "model", "effort": "reasoning effort"}


def mode_params(mode: PermissionMode, *, old: bool = False) -> dict[str, Any]:
    level, plan = _LEVELS[mode], mode is PermissionMode.PLAN
    if not old:
        return {"interactionMode": "spec" if plan else "auto", "autonomyLevel": level}
    if plan:
        return {"autonomyLevel": "spec"}
    return {"autonomyLevel": "normal" if level == "off" else f"auto-{level}"}


def mode_of(settings: Settings) -> PermissionMode | None:
    """The plainest of our modes that means what Droid is in."""
    if "spec" in (settings.interaction_mode, settings.autonomy_level, settings.autonomy_mode):
        return PermissionMode.PLAN
    level = settings.autonomy_level or settings.autonomy_mode
    if level is None:
        return None
    return _MODES.get("off" if level == "normal" else level.removeprefix("auto-"))


def same(one: PermissionMode, other: PermissionMode) -> bool:
    """Droid does not tell them apart."""
    return mode_params(one) == mode_params(other)


class Dial:
    """What the settings are, what our side believes they are, and what there is to say about the difference."""

    def __init__(
        self, mode: PermissionMode, model: str | None = None, effort: ReasoningEffort | None = None
    ) -> None:
        self.mode = mode
        self._model = model
        self._effort = effort
        self._actual = Settings()
        self._opening = True
        """What Droid says while a conversation is opened is not yet compared."""
        self._asking: dict[str, Any] = {}
        """What a request of ours that is under way asks for."""
        self._before = (mode, model, effort)
        self.models: dict[str, Any] = {}
        """Each model Droid offers, by its id."""

    @property
    def old(self) -> bool:
        """This CLI knows no interaction modes."""
        return self._actual.autonomy_level is not None and self._actual.interaction_mode is None

    @property
    def too_loose(self) -> bool:
        """Droid does more without asking than our side wants."""
        actual = mode_of(self._actual)
        return actual is not None and _ORDER.index(_LEVELS[actual]) > _ORDER.index(_LEVELS[self.mode])

    def read(self, settings: Settings) -> None:
        """Take over what Droid says; it may say only a part."""
        said = {name: value for name, value in msgspec.structs.asdict(settings).items() if value is not None}
        self._actual = msgspec.structs.replace(self._actual, **said)

    def want(
        self,
        mode: PermissionMode | None = None,
        model: str | None = None,
        effort: ReasoningEffort | None = None,
    ) -> dict[str, Any]:
        """Our side now believes this; the parameters that make it true. `confirm` is to follow."""
        params: dict[str, Any] = {}
        self._before = (self.mode, self._model, self._effort)
        if mode is not None:
            self.mode = mode
            params |= mode_params(mode, old=self.old)
        if model is not None:
            self._model = model
            params["modelId"] = model
        if effort is not None:
            self._effort = effort
            params["reasoningEffort"] = effort.value
        self._asking = {"mode": mode, "model": model, "effort": effort}
        return params

    def missing(self) -> dict[str, Any]:
        """The parameters for what Droid has otherwise than our side wants it."""
        wrong = self._wrong()
        if not wrong:
            return {}
        return self.want(
            self.mode if "mode" in wrong else None,
            self._model if "model" in wrong else None,
            self._effort if "effort" in wrong else None,
        )

    def refused(self) -> None:
        """Our request failed: our side believes what it believed before."""
        self._asking = {}
        self.mode, self._model, self._effort = self._before

    def confirm(self) -> list[SessionEvent]:
        """Our request is done: what of it was silently ignored, and what our side is to believe instead."""
        asked = {what for what, value in self._asking.items() if value is not None}
        said: list[SessionEvent] = [
            Notice(
                text=f"Droid did not take the {_NAMES[what]} {wanted}: it stays at {has}", level="warning",
                code="setting_ignored", meta={"setting": what, "asked": wanted, "actual": has},
            )
            for what, (wanted, has) in self._wrong().items()
            if what in asked
        ]  # fmt: skip
        if "model" in asked and self.models and self._model not in self.models:
            said.append(
                Notice(
                    text=f"Droid does not list the model {self._model}", level="warning", code="unknown_model",
                    meta={"model": self._model},
                )
            )  # fmt: skip
        self._asking, self._opening = {}, False
        news = self.news()
        return said if news is None else [*said, news]

    def news(self) -> ModeUpdate | None:
        """How it is now, if our side believes otherwise; from then on it believes that.

        While a request of ours is under way there is none: it would tell our side its own wish, or the state before it.
        """
        if self._asking or self._opening:
            return None
        actual = self._actual
        mode, model, effort = mode_of(actual), actual.model_id, _effort(actual.reasoning_effort)
        changed = ModeUpdate(
            permission_mode=None if mode is None or same(mode, self.mode) else mode,
            model=None if model == self._model else model,
            effort=None if effort == self._effort or self._effort is None else effort,
        )
        self.mode = changed.permission_mode or self.mode
        self._model = changed.model or self._model
        if actual.reasoning_effort is not None and self._effort is not None:
            self._effort = effort
        return None if changed == ModeUpdate() else changed

    def _wrong(self) -> dict[str, tuple[str, str]]:
        actual, wrong = self._actual, dict[str, tuple[str, str]]()
        mode = mode_of(actual)
        if mode is not None and not same(mode, self.mode):
            wrong["mode"] = (self.mode.value, mode.value)
        if self._model is not None and actual.model_id not in (None, self._model):
            wrong["model"] = (self._model, str(actual.model_id))
        if self._effort is not None and actual.reasoning_effort not in (None, self._effort.value):
            wrong["effort"] = (self._effort.value, str(actual.reasoning_effort))
        return wrong


def _effort(word: str | None) -> ReasoningEffort | None:
    return ReasoningEffort(word) if word in ReasoningEffort.__members__.values() else None
