"""The contract between the runner and an adapter. docs/adapters.md is the guide with a complete example.

An `Adapter` stands for one kind of agent on this machine: it finds the CLI, declares what it can do and starts it. A
`Launch` is one run of the agent's process for one session, from `Adapter.start` to the output `Exited`. The runner
gives each launch a `Sink`; the launch translates what the agent sends into outputs and puts them there.

The runner calls the methods of a launch one at a time, but `stop` may be called during any other call. Outputs may
reach the sink before the call that caused them returns.

Rules, checked by `farsteer.agents.conformance`:

Start and end
- `Adapter.start` returns when the agent can receive a message. If it raises or is cancelled, it leaves no process.
- A `start` that fails because the stored conversation differs from the plan raises `AgentError` with the code
  `conversation_in_use` (create), `conversation_missing` (resume, fork) or `anchor_unknown` (cut). The runner then
  corrects its record and tries once more.
- `Launch.stop` ends the whole process group in bounded time, however the agent behaves.
- `Exited` is the last output, after the process is reaped. `stop` returns after it.

Turns
- After `send` returned, exactly one `TurnEnded` follows, as the last output of the turn, even if the process crashes. A
  turn that `stop` cuts short ends as cancelled.
- If `send` raises, the turn never started and no `TurnEnded` follows. The codes `agent_died` and `timeout` say that the
  agent may have received the message; then the launch ends the process. Any other error says that it has not. With
  `message_not_taken` the process is gone or of no use, and the runner gives the message to the next one.
  `AgentProcess.handing_over` raises it.
- A turn that the agent begins by itself is emitted as `TurnBegun`. A message that `send` is called with meanwhile takes
  it over: the agent's own turn ends, and the message's begins.
- `interrupt` asks the agent to end the turn. The turn still ends with its own `TurnEnded`.
- A message is emitted once as a whole. Its deltas, if any, come before it and add up to its text.
- What a sub-agent does names the tool call that runs it (`parent_tool_call_id`). It never ends the turn.

Approvals
- `ApprovalAsked` opens an approval. It stays open until `answer`, `ApprovalWithdrawn` or the end of the turn.
- An approval for several actions lists all of them in `tool_calls`, also one that the adapter does not understand.
- Only an answer that approves allows the action. An interrupt, a timeout or the end of the process never does.

Terminals
- `Adapter.start_in_terminal` runs the agent's own interface in a person's terminal, and tells its begin and its end as
  `TerminalUpdate`. A turn that begins there is emitted as `TurnBegun`; everything else is as in other turns.
- A launch that takes no messages (`takes_messages`) ends with the interface, and the runner stops it when a message
  comes from elsewhere. Any other launch goes on when the person leaves.
- An adapter that reads a transcript emits `Followed` after the events of the records it names, in the same batch.

Events
- An agent message of an unknown kind is emitted as `Other`. An unreadable line causes a `Notice`. Neither is dropped,
  and neither ends the turn.
- A setting that the caller changed (`set_model` and the like) is not reported back. A model or effort that the agent
  does not have raises BadRequest (`model_unknown`, `effort_unknown`). One that the agent changed by
  itself is emitted as `ModeUpdate`. The runner puts a permission mode back that no person has chosen or granted: an
  option of an approval names the mode it leads to in `Option.mode`.

What an agent cannot do is not declared in `capabilities` and raises `NotCapable`, which every optional method does by
default. A missing capability is never imitated with an injected prompt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from farsteer.core.approvals import Answer, Approval
from farsteer.core.capabilities import AgentInfo, Capabilities, unknown_effort, unknown_model
from farsteer.core.errors import AgentError, ErrorCode, NotCapable
from farsteer.core.events import Delta, FilesRestored, SessionEvent, TurnEndReason, UserMessage
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.mcp import McpServer
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Attachment
from farsteer.core.session import StoredConversation
from farsteer.core.wire import WireStruct


class LaunchPlan(WireStruct):
    """Everything that is needed to start a launch."""

    session_id: str
    directory: str
    """The working directory of the agent."""
    generation: int
    """The number of this launch in its session, from 1."""
    decision: LaunchDecision
    """Whether to create or to resume a conversation, and under which native id."""
    permission_mode: PermissionMode = PermissionMode.DEFAULT
    model: str | None = None
    effort: ReasoningEffort | None = None
    options: Mapping[str, str] = {}
    """Options of this agent that the session was created with."""
    source: str = ""
    """What created the session, as the caller named it."""
    environment: Mapping[str, str] = {}
    """The complete environment of the process. Do not add the runner's own environment."""
    state_dir: str = ""
    """A private directory for the files of this agent (mode 0700, created by the runner)."""
    agent_dir: str = ""
    """Like `state_dir`, for files that the agent's own process reads and writes.

    It is the same directory unless agents run as another user. Then the runner must not open anything in it.
    """
    cut_at: str | None = None
    """Resume or fork with the history up to and including this anchor."""
    fork_of: str | None = None
    """Create with the history of this native conversation, which stays unchanged."""
    mcp_servers: tuple[McpServer, ...] = ()
    """MCP servers that the client configured for the session."""
    additional_directories: tuple[str, ...] = ()
    startup_timeout: float = 60.0
    """Seconds within which `Adapter.start` must return or raise."""


class Prompt(WireStruct):
    """A person's message."""

    turn_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    message_id: str = ""
    """Our id of the message. Pass it to an agent that accepts message ids: it is then an anchor for a cut."""


class EventEmitted(WireStruct):
    """An event for the session's log."""

    event: SessionEvent


class DeltaEmitted(WireStruct):
    """Streamed text, shown live and not stored."""

    delta: Delta


class ApprovalAsked(WireStruct):
    """The agent waits for a person's decision."""

    approval: Approval


class ApprovalWithdrawn(WireStruct):
    """The agent no longer waits for this approval."""

    approval_id: str


class TurnBegun(WireStruct):
    """A turn began that nobody asked us for. It ends with its own `TurnEnded`."""

    turn_id: str
    message: UserMessage | None = None
    """What a person wrote in the agent's own interface. None if the agent goes on by itself, for example because a
    command in the background has ended."""


class TurnEnded(WireStruct):
    """The turn is over. Nothing of it follows."""

    turn_id: str
    reason: TurnEndReason
    error: str | None = None


class Registered(WireStruct):
    """The agent has durably stored a conversation under this id, so that it can be resumed."""

    native_id: str


class Followed(WireStruct):
    """The log has every record of the agent's transcript up to this one."""

    record: str


class Exited(WireStruct):
    """The process has ended and is reaped."""

    exit_code: int | None
    reason: str
    stderr: str | None = None


Output = (
    EventEmitted | DeltaEmitted | ApprovalAsked | ApprovalWithdrawn | TurnBegun | TurnEnded | Registered | Followed
    | Exited
)  # fmt: skip


class Sink(Protocol):
    """Receives the outputs of a launch.

    Await `put` before reading more from the agent: this is how a slow receiver slows the agent down.
    """

    async def put(self, outputs: Sequence[Output]) -> None: ...


class TerminalCommand(WireStruct):
    """The agent's own interface: what to run in a person's terminal."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    """The complete environment."""
    directory: str


class Terminal(Protocol):
    """A person's terminal, in which one program at a time can run."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The person's own arguments for the program."""
        ...

    async def run(self, command: TerminalCommand) -> int:
        """Start the program and return its process id. Raises AgentError."""
        ...

    async def wait(self) -> int | None:
        """Wait for the end of the program. Returns its exit code, or None if the terminal is gone."""
        ...

    async def end(self, grace: float) -> None:
        """End the program, if it runs: SIGTERM, then SIGKILL after `grace` seconds. Idempotent."""
        ...


class Launch(ABC):
    """One run of an agent's process."""

    takes_messages = True
    """False if only the person at the terminal can write to it."""

    @property
    @abstractmethod
    def native_id(self) -> str | None:
        """The agent's id of the conversation, or None while it is unknown."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The leader of the agent's process group."""

    @abstractmethod
    async def send(self, prompt: Prompt) -> None:
        """Start a turn. Returns when the agent has received the message.

        Raises:
            Conflict: A turn is running.
            AgentError: `agent_died` or `timeout` if it is unknown whether the agent has received the message.
        """

    @abstractmethod
    async def answer(self, approval: Approval, answer: Answer) -> None:
        """Answer an open approval. `answer` has passed `check_answer`. Raises Conflict if it is not open."""

    @abstractmethod
    async def interrupt(self) -> None:
        """Ask the agent to end the turn. Does nothing between turns."""

    @abstractmethod
    async def stop(self, grace: float = 3.0) -> None:
        """End the process group: close its input, then SIGTERM, then SIGKILL, `grace` seconds each. Idempotent."""

    async def steer(self, prompt: Prompt) -> None:
        """Send a message into the running turn. Raises Conflict if no turn is running."""
        raise NotCapable("this agent cannot receive a message during a turn")

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        """Restore the files to their state when a message was sent.

        Args:
            message_id: The `Prompt.message_id` of the message.
            after: The last anchor before that message, or None if it is the first. Identifies the message for an
                agent that does not know `message_id`.
        """
        raise NotCapable("this agent cannot restore files")

    def check_settings(self, model: str | None, effort: ReasoningEffort | None) -> None:
        """Raise BadRequest for a model or effort that the agent does not have. Called before any of them is set."""
        return

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        raise NotCapable("this agent cannot change its permission mode while it runs")

    async def set_model(self, model: str) -> None:
        raise NotCapable("this agent cannot change its model while it runs")

    async def set_effort(self, effort: ReasoningEffort) -> None:
        raise NotCapable("this agent cannot change its reasoning effort while it runs")


class Takeover(Enum):
    """Whether an agent goes on with the session of another agent."""

    REFUSED = auto()
    ANEW = auto()
    """It goes on with a new conversation: it cannot use the stored one."""
    RESUMED = auto()
    """It goes on with the stored conversation."""


class Adapter(ABC):
    """One kind of agent. It has no state of its own but what `detect` learned; everything that runs is a `Launch`."""

    name: str
    """The name that users and configuration files use."""
    title: str
    """The name to show."""
    capabilities: Capabilities
    """What the agent can do. If that depends on the version of the CLI, set it on the instance, in `detect`."""
    environment_names: tuple[str, ...] = ()
    """Environment variables that the agent may see besides the basic ones, such as its API key. May contain `*`."""
    models: tuple[str, ...] = ()
    """The models that are known: those that the agent listed when it was last started."""
    efforts: Mapping[str, tuple[str, ...]] = {}
    """The reasoning efforts of those models for which the agent told them."""
    on_models: Callable[[], None] | None = None
    """Called when `models` or `efforts` have changed. Set by the registry, which keeps them."""

    @abstractmethod
    async def detect(self) -> AgentInfo:
        """Return whether the CLI is installed, its version, models and capabilities, or why it is not available."""

    def set_models(
        self, models: tuple[str, ...], efforts: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        """Take the models that the agent lists, and the reasoning efforts of each if it tells them."""
        if models and (models, efforts or {}) != (self.models, self.efforts):
            self.models, self.efforts = models, efforts or {}
            if self.on_models is not None:
                self.on_models()

    def check_settings(self, model: str | None, effort: ReasoningEffort | None, current: str | None) -> None:
        """Raise BadRequest for a model or effort that the agent is known not to have, without asking it.

        Args:
            model: The wanted model, None if it does not change.
            effort: The wanted effort, None if it does not change.
            current: The model in use.
        """
        can = self.capabilities
        can.check_model(self.title, model, self.models)
        if not can.closed_models:
            return
        if model is not None and self.models and model not in self.models:
            raise unknown_model(self.title, model, self.models)
        used = model or current or ""
        efforts = self.efforts.get(used)
        if effort is not None and efforts is not None and effort not in efforts:
            raise unknown_effort(self.title, used, effort, efforts)

    async def discover_models(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the models of the agent; if none are known, ask the CLI where it can tell without a session."""
        return self.models

    @abstractmethod
    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        """Start the agent. Call `check_plan` first. Returns when the agent can receive a message.

        Raises:
            NotCapable: The plan needs a capability that the agent does not have.
            AgentError: The agent did not start. No process is left.
        """

    async def start_in_terminal(self, plan: LaunchPlan, sink: Sink, terminal: Terminal) -> Launch:
        """Start the agent's own interface in a terminal. Call `check_plan` first. Returns when it runs.

        Raises:
            NotCapable: The agent has none, or it cannot be followed.
            AgentError: It did not start. No process is left.
        """
        raise NotCapable("this agent cannot run in a terminal")

    def takeover(self, other: Adapter) -> Takeover:
        """Return whether this agent can go on with a session of the other agent."""
        return Takeover.REFUSED

    def check_plan(self, plan: LaunchPlan) -> None:
        """Raise NotCapable if the plan needs a capability that is not declared."""
        can, resumes = self.capabilities, plan.decision.start is LaunchMode.RESUME
        if plan.decision.start is LaunchMode.REFUSE:
            raise AgentError("this conversation belongs to another agent", code=ErrorCode.AGENT_START_FAILED)
        if resumes and not can.resume:
            raise NotCapable("this agent cannot resume a conversation")
        if plan.fork_of is not None and not can.fork:
            raise NotCapable("this agent cannot fork a conversation")
        if plan.cut_at is not None and not (can.rewind if resumes else can.fork):
            raise NotCapable("this agent cannot rewind a conversation")
        if plan.mcp_servers and not can.mcp_servers:
            raise NotCapable("this agent does not accept MCP servers from a client", field="mcpServers")
        if plan.additional_directories and not can.additional_directories:
            raise NotCapable("this agent works in one directory only", field="additionalDirectories")

    # Stored conversations. `native_id` comes from outside: refuse one that is not an id of this agent, such as a path.

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        """Whether the agent's own store holds at least one message of this conversation."""
        return False

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        """Return up to `limit` stored conversations, newest first; only those of `directory` if it is given."""
        raise NotCapable("the conversations of this agent cannot be listed")

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        """Return a stored conversation as events. Raises AgentError `conversation_missing`."""
        raise NotCapable("the conversations of this agent cannot be read")

    async def read_records_after(self, native_id: str, record: str, directory: str) -> list[SessionEvent]:
        """Return what a terminal added to a conversation after a record (`Followed`), while nobody followed it."""
        return []

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        """Delete the agent's files of a conversation. Idempotent."""
        return
