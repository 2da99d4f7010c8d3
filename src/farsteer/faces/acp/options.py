"""What can be chosen for a session: agent, model, effort and permission mode, in ACP's forms."""

from __future__ import annotations

from typing import Any

from farsteer.core.api import MachineView, SessionView
from farsteer.core.capabilities import AgentInfo
from farsteer.core.modes import PermissionMode, ReasoningEffort

AGENT, MODEL, EFFORT, MODE = "agent", "model", "effort", "mode"
DEFAULT = "default"
"""The value of what nobody has chosen."""

_MODE_NAMES = {
    PermissionMode.DEFAULT: ("Ask", "Asks before it changes anything"),
    PermissionMode.ACCEPT_EDITS: ("Accept edits", "Edits files without asking, asks for the rest"),
    PermissionMode.PLAN: ("Plan", "Reads and proposes, changes nothing"),
    PermissionMode.READ_ONLY: ("Read only", "Reads, and refuses to change anything"),
    PermissionMode.SAFE_YOLO: ("Mostly free", "Edits and runs commands without asking"),
    PermissionMode.YOLO: ("Free", "Never asks"),
    PermissionMode.BYPASS: ("Bypass", "Never asks"),
}


def modes(view: SessionView) -> dict[str, Any]:
    return {
        "currentModeId": view.permission_mode.value,
        "availableModes": [
            {"id": mode.value, "name": name, "description": about}
            for mode, (name, about) in _MODE_NAMES.items()
        ],
    }


def models(view: SessionView, agent: AgentInfo | None) -> dict[str, Any]:
    """The form that older clients know."""
    names = _models(view, agent)
    return {
        "currentModelId": view.model or DEFAULT,
        "availableModels": [{"modelId": name, "name": name} for name in names],
    }


def config_options(view: SessionView, machine: MachineView | None) -> list[dict[str, Any]]:
    agents = [] if machine is None else [info for info in machine.agents if info.available]
    known = {info.name: info for info in agents}
    names = {info.name: info.title for info in agents}
    names.setdefault(view.agent, view.agent)
    effort = view.model_reasoning_effort
    efforts = [one.value for one in ReasoningEffort]
    return [
        _select(AGENT, "Agent", "_agent", view.agent, names),
        _select(
            MODEL, "Model", "model", view.model or DEFAULT,
            {name: name for name in _models(view, known.get(view.agent))},
        ),
        _select(
            EFFORT, "Reasoning effort", "thought_level", effort.value if effort else DEFAULT,
            {name: name for name in (efforts if effort else (DEFAULT, *efforts))},
        ),
        _select(
            MODE, "Permissions", "mode", view.permission_mode.value,
            {mode.value: name for mode, (name, _) in _MODE_NAMES.items()},
        ),
    ]  # fmt: skip


def _models(view: SessionView, agent: AgentInfo | None) -> list[str]:
    """What the agent names, and what is used now, also where nobody has named it."""
    named = [] if agent is None else [*agent.models]
    return [
        *dict.fromkeys((*([] if view.model else [DEFAULT]), *named, *([view.model] if view.model else [])))
    ]


def _select(id: str, name: str, category: str, current: str, choices: dict[str, str]) -> dict[str, Any]:
    return {
        "id": id,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": [{"value": value, "name": shown} for value, shown in choices.items()],
    }
