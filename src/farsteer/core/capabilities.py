"""What an agent can do. Its adapter declares it, and every client can read it."""

from __future__ import annotations

from farsteer.core.wire import WireStruct


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
