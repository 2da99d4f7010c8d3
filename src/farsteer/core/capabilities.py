"""What an agent can do, declared once by its adapter and shown to every client."""

from __future__ import annotations

from farsteer.core.wire import WireStruct


class Capabilities(WireStruct, omit_defaults=False):
    """Each false is answered with `NotCapable`; we never imitate a feature with an injected prompt."""

    caller_chosen_id: bool = False
    """The agent accepts our session id as its own; otherwise its id is learned from the handshake."""
    resume: bool = False
    rewind: bool = False
    fork: bool = False
    steer: bool = False
    """Takes a message into the running turn."""
    live_model: bool = False
    """Model, mode and effort change without a restart (the three next fields)."""
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
    """Uses servers of tools that a client names when it begins a session."""
    additional_directories: bool = False
    """Works in further directories besides the session's own."""


class AgentInfo(WireStruct, omit_defaults=False):
    """One agent as one machine has it."""

    name: str
    title: str
    available: bool
    version: str | None = None
    reason: str | None = None
    """Why it is not available."""
    install: str | None = None
    """What to type to get it."""
    models: tuple[str, ...] = ()
    capabilities: Capabilities = Capabilities()


class MachineInfo(WireStruct, omit_defaults=False):
    """What a runner says about its machine when it connects."""

    id: str
    host: str
    platform: str
    version: str
    agents: tuple[AgentInfo, ...] = ()
    roots: tuple[str, ...] = ()
    """Directories sessions may run in; empty means any."""
    name: str | None = None
