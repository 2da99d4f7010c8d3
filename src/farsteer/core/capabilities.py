"""What an agent can do. Its adapter declares it, and every client can read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from farsteer.core.errors import BadRequest, ErrorCode
from farsteer.core.modes import MODEL_MODES
from farsteer.core.wire import WireStruct

_SHOWN_MODELS = 30
"""How many models a message names. The details of the error have all of them."""


class Capabilities(WireStruct, omit_defaults=False):
    """A request for a feature that is False is refused with `NotCapable`. Features are never imitated with a prompt."""

    caller_chosen_id: bool = False
    """The agent accepts our session id as its own. Otherwise its id is learned from the handshake."""
    resume: bool = False
    rewind: bool = False
    fork: bool = False
    steer: bool = False
    """The agent accepts a message while a turn runs."""
    live_model: bool = False
    """The model can change without a restart. `live_mode` and `live_effort` say the same of mode and effort."""
    live_mode: bool = False
    live_effort: bool = False
    file_restore: bool = False
    approvals: bool = False
    questions: bool = False
    plans: bool = False
    images: bool = False
    usage: bool = False
    import_history: bool = False
    mcp_servers: bool = False
    """The agent uses MCP servers that a client names at creation."""
    additional_directories: bool = False
    """The agent can work in directories besides the session's own."""
    terminal: bool = False
    """The agent's own interface can have the conversation, in a person's terminal (`farsteer run`)."""
    does_unasked: tuple[str, ...] = ()
    """What the agent does without asking, in words, although the permission mode says that it asks."""
    options: tuple[str, ...] = ()
    """The fields of a creation that only some agents use and this one does, such as `claudeAgent`."""
    model_modes: tuple[str, ...] = ()
    """The values of `modelMode` that the agent understands, besides `default` and the models that it lists."""
    closed_models: bool = False
    """The agent has no models but those that it lists. Other agents also take names that they do not list."""

    def check_options(self, agent: str, options: Iterable[str]) -> None:
        """Raise BadRequest for an option that the agent would not use."""
        for field in options:
            if field not in self.options:
                raise BadRequest(f"{agent} does not use {field}", code=ErrorCode.FIELD_NOT_USED, field=field)

    def check_model(self, agent: str, model: str | None, models: tuple[str, ...]) -> None:
        """Raise BadRequest for a name of another agent's model. Any other name is passed on: agents do not list all.

        Args:
            agent: The title of the agent.
            model: The model that a caller wants.
            models: The models that the agent has listed. If none are known, it decides itself.
        """
        known = tuple(dict.fromkeys((*models, *self.model_modes)))
        if known and model in MODEL_MODES and model not in known:
            raise unknown_model(agent, model, known)


def unknown_model(agent: str, model: str, known: Iterable[str]) -> BadRequest:
    """Return the error for a model that an agent does not have."""
    models = list(known)
    shown = ", ".join(models[:_SHOWN_MODELS]) + (", …" if len(models) > _SHOWN_MODELS else "")
    return BadRequest(
        f"{agent} has no model {model}; it has {shown}",
        code=ErrorCode.MODEL_UNKNOWN,
        field="model",
        models=models,
    )


def unknown_effort(agent: str, model: str, effort: str, known: Iterable[str]) -> BadRequest:
    """Return the error for a reasoning effort that an agent's model does not have."""
    efforts = list(known)
    return BadRequest(
        f"{model} of {agent} has no reasoning effort {effort}; it has {', '.join(efforts) or 'none'}",
        code=ErrorCode.EFFORT_UNKNOWN, field="modelReasoningEffort", efforts=efforts,
    )  # fmt: skip


AgentModels = Mapping[str, tuple[str, ...]]
"""The models of some agents, by the names of the agents."""


class AgentInfo(WireStruct, omit_defaults=False):
    """An agent as it is installed on one machine."""

    name: str
    title: str
    available: bool
    version: str | None = None
    reason: str | None = None
    """Why it is not available."""
    install: str | None = None
    """The command that installs it."""
    login: str | None = None
    """How to log in, if the agent is installed but cannot work before that."""
    warning: str | None = None
    """What a user should know although the agent works, such as a version that was not tested."""
    models: tuple[str, ...] = ()
    capabilities: Capabilities = Capabilities()
    continues: tuple[str, ...] = ()
    """Other agents whose conversations it can go on with as its own, because they use the same store."""


class MachineInfo(WireStruct, omit_defaults=False):
    """A machine as its runner describes it when it connects."""

    id: str
    host: str
    platform: str
    version: str
    agents: tuple[AgentInfo, ...] = ()
    roots: tuple[str, ...] = ()
    """Directories that sessions may run in. Empty means any directory."""
    name: str | None = None


class MachineConflict(WireStruct, omit_defaults=False):
    """Another runner with the identity of a machine was refused, since the machine's runner was accepted."""

    host: str
    at: int
    message: str
