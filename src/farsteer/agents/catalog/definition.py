"""An agent that speaks the Agent Client Protocol, described by a TOML file.

The files in this package are built in. The owner of a machine adds agents, or replaces a built-in one, with files in
`$FARSTEER_HOME/agents`. The name of the file without `.toml` is the name of the agent.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from farsteer.agents.process.environment import is_private_variable
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import BadRequest
from farsteer.core.modes import PermissionMode
from farsteer.storage.home import read_settings

BUILT_IN = (
    "gemini", "opencode", "qwen", "grok", "kimi-code", "goose", "copilot", "cursor", "droid-acp", "claude-agent-acp",
    "codex-acp",
)  # fmt: skip
"""The agents of this package, in order of preference."""

_FOLDER = Path(__file__).parent
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PATTERN = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]{0,99}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Trap(StrEnum):
    """Something that an agent does wrong, and that the adapter makes up for."""

    FILE_PER_MINUTE = "file_per_minute"
    """Loading a conversation in the minute of its file's name destroys it (Gemini). The file is renamed before."""
    REPLAY_AFTER_LOAD = "replay_after_load"
    """The replay goes on after the answer to `session/load`. A load is over when the agent is quiet."""
    SILENT_RETRIES = "silent_retries"
    """A failing model is asked again and again without a word. A person is told when a turn is silent for long."""
    EMPTY_TURN_IS_ERROR = "empty_turn_is_error"
    """A turn that fails ends like one without an answer. It is reported as failed."""
    KEEPS_FAILED_PROMPTS = "keeps_failed_prompts"
    """The message of a failed turn is shown to the model again, with the next one. A person is told."""
    OUTLIVES_STDIN = "outlives_stdin"
    """The process goes on when its input is closed. It gets SIGTERM soon."""
    FIRST_START_ALONE = "first_start_alone"
    """Processes that make its database at the same time fail. The others start when one has started."""


class Feature(StrEnum):
    """What an agent can do besides what every agent of the catalog can."""

    RESUME = "resume"
    FORK = "fork"
    LIVE_MODEL = "live_model"
    LIVE_EFFORT = "live_effort"
    QUESTIONS = "questions"
    PLANS = "plans"
    IMAGES = "images"
    USAGE = "usage"
    IMPORT_HISTORY = "import_history"
    MCP_SERVERS = "mcp_servers"
    ADDITIONAL_DIRECTORIES = "additional_directories"


class NativeModeNames(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The agent's own names of its permission modes. Only these are used; our policy makes the others of `ask`."""

    ask: str | None = None
    """Asks before it changes anything. It is set in every session, whatever the agent starts in."""
    plan: str | None = None
    yolo: str | None = None
    others: dict[str, PermissionMode] = {}
    """What further modes mean, if the agent changes to one by itself."""


class PreparedFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file that is written before the agent starts, in a private directory. A variable tells the agent where."""

    name: str
    variable: str
    content: str


class AgentDefinition(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    title: str
    command: tuple[str, ...]
    """The program and its arguments. The program is looked for on PATH."""
    places: tuple[str, ...] = ()
    """Where installers put the program, below the user's home directory."""
    packages: tuple[str, ...] = ()
    """The names of its npm packages, from which the version is read without starting it."""
    asks_version: bool = False
    """Whether the program may be asked with `--version` if no package tells: only one that answers at once."""
    minimum_version: str | None = None
    tested_version: str | None = None
    environment: dict[str, str] = {}
    """Variables that are always set."""
    environment_names: tuple[str, ...] = ()
    """Variables of the runner that the agent may see, such as its key. They may contain `*`."""
    files: tuple[PreparedFile, ...] = ()
    install: str | None = None
    """The command that installs it."""
    login: str | None = None
    """How to log in."""
    auth_method: str | None = None
    """The id of the method that `authenticate` is called with, if the agent asks for it and needs no person."""
    can: tuple[Feature, ...] = ()
    modes: NativeModeNames = NativeModeNames()
    client_files: bool = False
    """Whether the agent may read and write files through us. Most agents work better on the disk themselves."""
    client_terminals: bool = False
    """Whether the agent may run commands through us."""
    session_meta: dict[str, Any] = {}
    """The `_meta` of the requests that open a session."""
    reading_tools: tuple[str, ...] = ()
    """Tools that change nothing, by the agent's names, if it asks before each tool (`_x.ai/hooks/run`)."""
    does_unasked: tuple[str, ...] = ()
    """What the agent does without asking in the modes that ask, in words."""
    traps: tuple[Trap, ...] = ()
    source: str | None = None
    """Where the description comes from, if it was added from a registry."""

    @property
    def capabilities(self) -> Capabilities:
        features = {_camel(feature.value): True for feature in self.can}
        every = {"approvals": True, "liveMode": True, "doesUnasked": self.does_unasked}
        return convert({**every, **features}, Capabilities)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def agent_names(home: Path) -> tuple[str, ...]:
    """Return the names of all agents: the built-in ones by preference, then the owner's in alphabetical order."""
    own = sorted(file.stem for file in _directory(home).glob("*.toml") if _NAME.fullmatch(file.stem))
    return tuple(dict.fromkeys((*BUILT_IN, *own)))


def load_agent(home: Path, name: str) -> AgentDefinition:
    """Return the definition. The owner's file comes before a built-in one. Raises BadRequest if it is not valid."""
    own = agent_file(home, name)
    path = own if own.exists() else _FOLDER / f"{name}.toml"
    return checked(read_settings(path, AgentDefinition), path)


def agent_file(home: Path, name: str) -> Path:
    """Return the place of the owner's definition of an agent. Raises BadRequest if the name cannot be one."""
    if not _NAME.fullmatch(name):
        raise BadRequest(f"{name!r} cannot be the name of an agent: use a-z, 0-9 and -", field="name")
    return _directory(home) / f"{name}.toml"


def checked(definition: AgentDefinition, source: object) -> AgentDefinition:
    """Return the definition. Raises BadRequest if it is not valid."""
    if not definition.command or not all(definition.command) or definition.command[0].startswith("-"):
        raise BadRequest(f"{source}: command does not name a program", field="command")
    files = [(one.variable, one.name) for one in definition.files]
    for name in (*definition.environment, *(variable for variable, _ in files)):
        if not _VARIABLE.fullmatch(name) or is_private_variable(name):
            raise BadRequest(f"{source}: {name} cannot be a variable of an agent", field="environment")
    for name in definition.environment_names:
        if not _PATTERN.fullmatch(name) or is_private_variable(name) or not name.strip("*"):
            raise BadRequest(f"{source}: {name} cannot be a variable of an agent", field="environment_names")
    for _, name in files:
        if not _FILE.fullmatch(name):
            raise BadRequest(f"{source}: {name!r} is not the name of a file", field="files")
    return definition


def _directory(home: Path) -> Path:
    return home / "agents"
