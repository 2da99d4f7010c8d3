"""How a session works, in Droid's words and in ours.

Droid once had one word (`autonomyLevel: spec | auto-low | ...`), now it has a level and an interaction mode. Both are
understood, and a client is answered in the words it uses.
"""

from __future__ import annotations

from farsteer.core.errors import BadRequest
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.faces.droid.notes import Settings
from farsteer.faces.droid.params import Dials

SPEC = "spec"
LEVELS = ["off", "low", "medium", "high"]
EFFORTS = ["none", "low", "medium", "high", "xhigh"]

_BY_LEVEL = {
    "off": PermissionMode.DEFAULT,
    "low": PermissionMode.ACCEPT_EDITS,
    "medium": PermissionMode.SAFE_YOLO,
    "high": PermissionMode.YOLO,
}
_OLD_WORDS = {"normal": "off", "auto-low": "low", "auto-medium": "medium", "auto-high": "high"}
_LEVEL_OF = {
    **{mode: level for level, mode in _BY_LEVEL.items()},
    PermissionMode.READ_ONLY: "off",
    PermissionMode.PLAN: "off",
    PermissionMode.BYPASS: "high",
}
_EFFORTS = {
    **{effort.value: effort for effort in ReasoningEffort},
    "max": ReasoningEffort.XHIGH,
    "minimal": ReasoningEffort.LOW,
    "none": None,
    "off": None,
    "dynamic": None,
}


def level_mode(level: str) -> PermissionMode:
    """Raises BadRequest for a word that is no level."""
    mode = _BY_LEVEL.get(_OLD_WORDS.get(level, level))
    if mode is None:
        raise BadRequest(f"{level!r} is no autonomy level; there are {', '.join(LEVELS)}")
    return mode


def wanted_mode(given: Dials, current: PermissionMode | None = None) -> PermissionMode | None:
    """The permission mode a client asks for; None: it asks for none. Raises BadRequest for an unknown word."""
    if given.interaction_mode not in (None, "auto", SPEC):
        raise BadRequest(f"{given.interaction_mode!r} is no interaction mode")
    if SPEC in (given.interaction_mode, given.autonomy_level, given.autonomy_mode):
        return PermissionMode.PLAN
    level = given.autonomy_level or given.autonomy_mode
    if level is not None:
        return level_mode(level)
    leaves_spec = given.interaction_mode == "auto" and current is PermissionMode.PLAN
    return PermissionMode.DEFAULT if leaves_spec else None


def wanted_effort(given: Dials) -> ReasoningEffort | None:
    """Raises BadRequest for an unknown word."""
    word = given.reasoning_effort
    if word is None:
        return None
    if word not in _EFFORTS:
        raise BadRequest(f"{word!r} is no reasoning effort; there are {', '.join(_EFFORTS)}")
    return _EFFORTS[word]


def speaks_levels(given: Dials) -> bool | None:
    """Whether the client uses the newer words; None: it did not say."""
    if given.interaction_mode is not None or given.autonomy_level in LEVELS:
        return True
    return None if given.autonomy_level is None else False


def settings(mode: PermissionMode, model: str, effort: ReasoningEffort | None, *, levels: bool) -> Settings:
    level, plan = _LEVEL_OF[mode], mode is PermissionMode.PLAN
    old = SPEC if plan else "normal" if level == "off" else f"auto-{level}"
    return Settings(
        model_id=model, reasoning_effort="none" if effort is None else effort.value,
        autonomy_level=level if levels else old, autonomy_mode=old, interaction_mode=SPEC if plan else "auto",
        spec_mode_reasoning_effort="none", available_autonomy_levels=LEVELS if levels else None,
    )  # fmt: skip
