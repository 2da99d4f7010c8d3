"""The settings of a session in ACP's forms: agent, model, reasoning effort and permission mode."""

from __future__ import annotations

from typing import Any

from farsteer.client.hub_client import HubClient
from farsteer.core.api import MachineView, SessionView
from farsteer.core.capabilities import AgentInfo
from farsteer.core.errors import BadRequest, FarsteerError
from farsteer.core.modes import PermissionMode, ReasoningEffort

AGENT, MODEL, EFFORT, MODE = "agent", "model", "effort", "mode"
DEFAULT = "default"
"""The value of a setting that nobody has chosen."""

_MODE_NAMES = {
    PermissionMode.DEFAULT: ("Ask", "Asks before it changes anything"),
    PermissionMode.ACCEPT_EDITS: ("Accept edits", "Edits files without asking, asks for the rest"),
    PermissionMode.PLAN: ("Plan", "Reads and proposes, changes nothing"),
    PermissionMode.READ_ONLY: ("Read only", "Reads, and refuses to change anything"),
    PermissionMode.SAFE_YOLO: ("Mostly free", "Edits and runs commands without asking"),
    PermissionMode.YOLO: ("Free", "Never asks"),
    PermissionMode.BYPASS: ("Bypass", "Never asks"),
}


# -- describing


async def describe_settings(hub: HubClient, view: SessionView) -> dict[str, Any]:
    """Return the `modes`, `models` and `configOptions` that answer `session/new` and its like."""
    machine = await _machine_of(hub, view)
    agents = {} if machine is None else {info.name: info for info in machine.agents}
    return {
        "modes": _modes(view),
        "models": _models(view, agents.get(view.agent)),
        "configOptions": _config_options(view, machine),
    }


async def describe_config_options(hub: HubClient, session_id: str) -> list[dict[str, Any]]:
    view = await hub.session(session_id)
    return _config_options(view, await _machine_of(hub, view))


async def _machine_of(hub: HubClient, view: SessionView) -> MachineView | None:
    try:
        return next((machine for machine in await hub.machines() if machine.id == view.machine_id), None)
    except FarsteerError:
        return None


def _modes(view: SessionView) -> dict[str, Any]:
    return {
        "currentModeId": view.permission_mode.value,
        "availableModes": [
            {"id": mode.value, "name": name, "description": description}
            for mode, (name, description) in _MODE_NAMES.items()
        ],
    }


def _models(view: SessionView, agent: AgentInfo | None) -> dict[str, Any]:
    """Older clients read `models`; the current protocol has a configuration option instead."""
    return {
        "currentModelId": view.model or DEFAULT,
        "availableModels": [{"modelId": name, "name": name} for name in _model_names(view, agent)],
    }


def _config_options(view: SessionView, machine: MachineView | None) -> list[dict[str, Any]]:
    agents = [] if machine is None else [info for info in machine.agents if info.available]
    known = {info.name: info for info in agents}
    titles = {info.name: info.title for info in agents}
    titles.setdefault(view.agent, view.agent)
    effort = view.model_reasoning_effort
    efforts = [level.value for level in ReasoningEffort]
    return [
        _select(AGENT, "Agent", "_agent", view.agent, titles),
        _select(
            MODEL, "Model", "model", view.model or DEFAULT,
            {name: name for name in _model_names(view, known.get(view.agent))},
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


def _model_names(view: SessionView, agent: AgentInfo | None) -> list[str]:
    """Return the agent's models and the current one, which the agent may not list."""
    names = [] if agent is None else [*agent.models]
    current = [view.model] if view.model else []
    return [*dict.fromkeys((*([] if view.model else [DEFAULT]), *names, *current))]


def _select(id: str, name: str, category: str, current: str, choices: dict[str, str]) -> dict[str, Any]:
    return {
        "id": id,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": [{"value": value, "name": label} for value, label in choices.items()],
    }


# -- changing


async def set_mode(hub: HubClient, session_id: str, value: Any) -> None:
    try:
        mode = PermissionMode(value)
    except ValueError:
        raise BadRequest(f"unknown mode {value!r}", choices=[*PermissionMode]) from None
    await hub.set_permission_mode(session_id, mode)


async def set_model(hub: HubClient, session_id: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise BadRequest("a model must be a name")
    if value != DEFAULT:
        await hub.set_model(session_id, value)
    elif (await hub.session(session_id)).model is not None:
        raise BadRequest("a model has been chosen already: choose another one by its name")


async def set_effort(hub: HubClient, session_id: str, value: Any) -> None:
    view = await hub.session(session_id)
    if value == DEFAULT and view.model_reasoning_effort is None:
        return
    try:
        effort = ReasoningEffort(value)
    except ValueError:
        raise BadRequest(f"unknown effort {value!r}", choices=[*ReasoningEffort]) from None
    if view.model is None:
        raise BadRequest("choose a model first: this agent has not named the one it uses")
    await hub.set_model(session_id, view.model, effort=effort)
