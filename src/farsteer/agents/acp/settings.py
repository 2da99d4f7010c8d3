"""Permission mode, model and reasoning effort of a session of the agent.

The agent runs in its asking mode, and `tool_permission` decides what reaches a person. Its own modes are used for plans
and for never asking only. Agents have settings in two forms: `modes` and `models`, or configuration options.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from farsteer.agents.acp.protocol import OpenedSession
from farsteer.agents.catalog.definition import NativeModeNames
from farsteer.core.capabilities import unknown_effort, unknown_model
from farsteer.core.errors import AgentError, BadRequest, ErrorCode
from farsteer.core.events import ModeUpdate
from farsteer.core.modes import PermissionMode, ReasoningEffort, loosens
from farsteer.jsonrpc.messages import as_object

READ_ONLY_MODES = frozenset({PermissionMode.PLAN, PermissionMode.READ_ONLY})
FREE_MODES = frozenset({PermissionMode.YOLO, PermissionMode.BYPASS})
_MODE, _MODEL, _EFFORT = (
    ("mode", {"mode"}),
    ("model", {"model"}),
    ("thought_level", {"effort", "reasoning_effort"}),
)
"""Categories of configuration options, and ids of options that have no category."""


class Change(NamedTuple):
    """A request that changes a setting of the agent, without the id of the session."""

    method: str
    params: dict[str, Any]
    is_mode: bool = False


class Selection(NamedTuple):
    """A configuration option with one of several values."""

    id: str
    category: str | None
    current: str | None
    values: tuple[str, ...]


class SessionSettings:
    """The settings that the runner wants, and those that the agent has.

    Args:
        title: The agent's name, as persons know it.
        names: The agent's names of its modes.
    """

    def __init__(
        self, title: str, names: NativeModeNames, mode: PermissionMode, model: str | None,
        effort: ReasoningEffort | None,
    ) -> None:  # fmt: skip
        self.mode = mode
        """The permission mode by which we answer the agent's requests."""
        self.is_changing = False
        """A change of ours is on its way. What the agent reports meanwhile may be older than that."""
        self._chosen = mode
        """The permission mode that a person chose or granted. The agent never makes `mode` looser than that."""
        self._title = title
        self._names = names
        self._model = model
        self._effort = effort
        self._native_mode: str | None = None
        self._modes: tuple[str, ...] = ()
        self._has_modes = False
        """The agent has announced `modes`."""
        self._models: tuple[str, ...] = ()
        self._selections: tuple[Selection, ...] = ()

    @property
    def is_read_only(self) -> bool:
        return self.mode in READ_ONLY_MODES

    @property
    def allows_everything(self) -> bool:
        return self.mode in FREE_MODES

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the agent offers."""
        selection = self._selection(_MODEL)
        return self._models if selection is None else selection.values

    # -- what the agent reports

    def handle_opened(self, opened: OpenedSession) -> None:
        if opened.modes is not None:
            self._modes = tuple(mode.id for mode in opened.modes.available_modes)
            self._native_mode = opened.modes.current_mode_id
            self._has_modes = True
        if opened.models is not None:
            self._models = tuple(model.model_id for model in opened.models.available_models)
        if opened.config_options is not None:
            self.handle_options(opened.config_options)

    def handle_options(self, options: list[dict[str, Any]]) -> ModeUpdate | None:
        """Take the configuration options. Returns the permission mode if the agent has changed it by itself."""
        self._selections = tuple(found for option in options if (found := _selection(option)) is not None)
        selection = self._mode_selection()
        if selection is None or selection.current is None:
            return None
        first, self._modes = self._native_mode is None, selection.values
        if first:
            self._native_mode = selection.current
            return None
        return self.handle_native_mode(selection.current)

    def handle_native_mode(self, native: str) -> ModeUpdate | None:
        """Take the agent's mode. Returns the permission mode if the agent has changed it by itself."""
        if native == self._native_mode or self.is_changing:
            return None
        self._native_mode = native
        # A mode that we do not know may allow anything, so that it counts as the one that does.
        meaning = self.meaning(native) or PermissionMode.YOLO
        if native == self._native_for(self._chosen):
            meaning = self._chosen
        self.mode = self._chosen if loosens(self._chosen, meaning) else meaning
        return ModeUpdate(permission_mode=meaning)

    def grant(self, mode: PermissionMode) -> None:
        """A person has allowed the agent to change to this mode by itself."""
        self.mode = self._chosen = mode

    def meaning(self, native: str) -> PermissionMode | None:
        """Return what a mode of the agent means, None if nobody knows."""
        names = self._names
        known = {
            names.yolo: PermissionMode.YOLO,
            names.plan: PermissionMode.PLAN,
            names.ask: PermissionMode.DEFAULT,
        }
        return known.get(native) or names.others.get(native)

    # -- what the runner wants

    def initial_changes(self) -> list[Change]:
        """Return what makes a session that was just opened as the runner wants it."""
        changes = self.mode_changes(self.mode)
        if self._model is not None:
            changes.append(self.model_change(self._model))
        if self._effort is not None:
            changes.append(self.effort_change(self._effort))
        return changes

    def mode_changes(self, mode: PermissionMode) -> list[Change]:
        """Return the change of the agent's mode that a permission mode needs, if any.

        Raises AgentError if the agent has no mode that asks.
        """
        wanted = self._native_for(mode)
        self.mode = self._chosen = mode
        if wanted is None or wanted == self._native_mode:
            return []
        self._native_mode = wanted
        selection = self._mode_selection()
        if selection is not None and wanted in selection.values:
            return [_option_change(selection, wanted, is_mode=True)]
        return [Change("session/set_mode", {"modeId": wanted})]

    def check_mode(self) -> None:
        """Raise AgentError if the agent says that it has another mode than the one it was told to change to."""
        selection = self._mode_selection()
        if selection is not None and selection.current not in (None, self._native_mode):
            raise AgentError(
                f"{self._title} is in its mode {selection.current}, and not in {self._native_mode}",
                code=ErrorCode.AGENT_PROTOCOL,
            )

    def model_change(self, model: str) -> Change:
        selection = self._selection(_MODEL)
        if selection is not None:
            return _option_change(selection, model)
        return Change("session/set_model", {"modelId": model})

    def effort_change(self, effort: ReasoningEffort) -> Change:
        selection = self._selection(_EFFORT)
        if selection is None:
            raise BadRequest(
                f"{self._title} has no setting of reasoning effort", code=ErrorCode.EFFORT_UNKNOWN,
                field="modelReasoningEffort",
            )  # fmt: skip
        return _option_change(selection, effort.value)

    def check(self, model: str | None, effort: ReasoningEffort | None) -> None:
        """Raise BadRequest for a model or effort that the agent does not offer."""
        models, efforts = self._selection(_MODEL), self._selection(_EFFORT)
        if model is not None and models is not None and model not in models.values:
            raise unknown_model(self._title, model, models.values)
        if effort is not None and efforts is not None and effort.value not in efforts.values:
            current = model or (models.current if models else None) or "the model"
            raise unknown_effort(self._title, current, effort.value, efforts.values)

    def _native_for(self, mode: PermissionMode) -> str | None:
        names = self._names
        wanted = names.plan if mode in READ_ONLY_MODES else names.yolo if mode in FREE_MODES else None
        for native in (wanted, names.ask):
            if native is not None and (not self._modes or native in self._modes):
                return native
        if names.ask is None:
            return None
        raise AgentError(
            f"{self._title} has no mode {names.ask!r} any more, in which it asks for permissions; it has"
            f" {', '.join(self._modes)}",
            code=ErrorCode.AGENT_PROTOCOL,
        )

    def _mode_selection(self) -> Selection | None:
        """Return the option for the agent's mode. Beside `modes`, one of the same category may mean something else."""
        selection = self._selection(_MODE)
        if selection is not None and self._has_modes and self._names.ask not in selection.values:
            return None
        return selection

    def _selection(self, of: tuple[str, set[str]]) -> Selection | None:
        category, ids = of
        for selection in self._selections:
            if selection.category == category or (selection.category is None and selection.id in ids):
                return selection
        return None


def _option_change(selection: Selection, value: str, *, is_mode: bool = False) -> Change:
    return Change("session/set_config_option", {"configId": selection.id, "value": value}, is_mode)


def _selection(option: Any) -> Selection | None:
    fields = as_object(option) or {}
    name, current, values = fields.get("id"), fields.get("currentValue"), fields.get("options")
    if not isinstance(name, str) or not isinstance(values, list):
        return None
    category = fields.get("category")
    return Selection(
        name, category if isinstance(category, str) else None, current if isinstance(current, str) else None,
        tuple(_values(cast("list[Any]", values))),
    )  # fmt: skip


def _values(options: list[Any]) -> list[str]:
    """Return the values of options, which may be in groups."""
    found: list[str] = []
    for option in options:
        fields = as_object(option) or {}
        group = fields.get("options")
        if isinstance(group, list):
            found += _values(cast("list[Any]", group))
        elif isinstance(fields.get("value"), str):
            found.append(fields["value"])
    return found
