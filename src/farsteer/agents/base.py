"""The contract every adapter fulfils.

An `Adapter` is one kind of agent on this machine: it knows whether the CLI is installed and what it can do, and it
starts launches. A `Launch` is one life of the agent's process, bound to one session. The runner gives it a `Sink`
and calls its methods one at a time; the launch turns what the agent says into core events and deltas.

Rules (the conformance suite in `farsteer.agents.conformance` checks them):
- `start` returns when the agent is ready to take a message, or raises `AgentError` and leaves no process.
- After `send`, exactly one `TurnEnded` follows, and it is the last thing of the turn, also after a crash. If `send`
  raises, the turn never began: no `TurnEnded` follows, and if the agent's state is unknown its process is ended.
- Outputs may reach the sink before the call that caused them returns; whoever calls must go on taking them.
- An approval is asked with `ApprovalAsked` and stays open until `answer` or the end of the turn. A missing answer never
  means yes.
- `interrupt` asks; the turn still ends by its own `TurnEnded`. `stop` ends the process group in bounded time; a turn
  that it cuts short ends as cancelled.
- `start` that fails because our idea of the conversation is wrong says so by its code: `conversation_in_use` (create),
  `conversation_missing` (resume, fork) or `anchor_unknown` (cut). The runner sets its row right and tries once more.
- After `Exited` nothing follows; `stop` returns after `Exited` was put. Cancelling `start` leaves no process.
- A change that the caller asked for (`set_model` and the like) is not echoed; one the agent makes is a `ModeUpdate`.
- What the agent says that the adapter has no word for is passed on as `Other`, never dropped and never fatal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from farsteer.core.approvals import Answer, Approval
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import AgentError, ErrorCode, NotCapable
from farsteer.core.events import Delta, FilesRestored, SessionEvent, TurnEndReason
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.mcp import McpServer
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Attachment
from farsteer.core.session import StoredConversation
from farsteer.core.wire import WireStruct


class LaunchPlan(WireStruct):
    """Everything a launch needs; decided before the process exists."""

    session_id: str
    directory: str
    generation: int
    decision: LaunchDecision
    permission_mode: PermissionMode = PermissionMode.DEFAULT
    model: str | None = None
    effort: ReasoningEffort | None = None
    source: str = "external-api"
    options: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    """The scrubbed environment, already complete."""
    state_dir: str = ""
    """Where the adapter may keep files of this agent (0700, made by the runner)."""
    cut_at: str | None = None
    """Resume or fork: keep the history up to and including this anchor."""
    fork_of: str | None = None
    """Create only: begin with the history of this native conversation, which stays as it is."""
    mcp_servers: tuple[McpServer, ...] = ()
    """Servers of tools that the client has brought along."""
    additional_directories: tuple[str, ...] = ()
    startup_timeout: float = 60.0


class Prompt(WireStruct):
    turn_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    message_id: str = ""
    """Our name for the message: its anchor, where the agent takes one."""


class EventEmitted(WireStruct):
    """Something for the log."""

    event: SessionEvent


class DeltaEmitted(WireStruct):
    """A live fragment."""

    delta: Delta


class ApprovalAsked(WireStruct):
    approval: Approval


class ApprovalWithdrawn(WireStruct):
    """The agent no longer waits for this approval."""

    approval_id: str


class TurnEnded(WireStruct):
    turn_id: str
    reason: TurnEndReason
    error: str | None = None


class Registered(WireStruct):
    """The agent has durably accepted a conversation under this id."""

    native_id: str


class Exited(WireStruct):
    """The process is gone and reaped."""

    exit_code: int | None
    reason: str
    stderr: str | None = None


Output = EventEmitted | DeltaEmitted | ApprovalAsked | ApprovalWithdrawn | TurnEnded | Registered | Exited


class Sink(Protocol):
    """Where a launch puts what the agent said. Awaiting it is the back-pressure: do not read on before it returns."""

    async def put(self, outputs: Sequence[Output]) -> None: ...


class Launch(ABC):
    """One life of an agent's process."""

    @property
    @abstractmethod
    def native_id(self) -> str | None:
        """The agent's own name for the conversation, as soon as it is known."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The leader of the agent's process group."""

    @abstractmethod
    async def send(self, prompt: Prompt) -> None:
        """Begin a turn. Returning means that the agent has the message."""

    @abstractmethod
    async def answer(self, approval: Approval, answer: Answer) -> None:
        """Answer an open approval. `answer` has passed `check_answer`."""

    @abstractmethod
    async def interrupt(self) -> None:
        """Ask the agent to end the turn."""

    @abstractmethod
    async def stop(self, grace: float = 3.0) -> None:
        """End the process group: ask, then SIGTERM, then SIGKILL, each within `grace`. Idempotent."""

    async def steer(self, prompt: Prompt) -> None:
        raise NotCapable("this agent takes no message into a running turn")

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        """Make the files what they were when that message was sent.

        It is the one that was sent with this `Prompt.message_id`, and the first after the anchor `after` or of all.
        """
        raise NotCapable("this agent keeps no copies of files")

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        raise NotCapable("this agent cannot change its permission mode while it runs")

    async def set_model(self, model: str) -> None:
        raise NotCapable("this agent cannot change its model while it runs")

    async def set_effort(self, effort: ReasoningEffort) -> None:
        raise NotCapable("this agent cannot change its reasoning effort while it runs")


class Adapter(ABC):
    """One kind of agent. Stateless: everything that lives belongs to a `Launch`."""

    name: ClassVar[str]
    title: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    environment_names: ClassVar[tuple[str, ...]] = ()
    """Variables of the runner's environment the agent may see besides the basic ones (its API keys)."""

    @abstractmethod
    async def detect(self) -> AgentInfo:
        """Is the CLI here, which version, and if not: why, and how to get it."""

    @abstractmethod
    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch: ...

    def check(self, plan: LaunchPlan) -> None:
        """Refuse a plan this agent cannot follow. Every `start` begins with it."""
        can, resumes = self.capabilities, plan.decision.start is LaunchMode.RESUME
        if plan.decision.start is LaunchMode.REFUSE:
            raise AgentError("this conversation belongs to another agent", code=ErrorCode.AGENT_START_FAILED)
        if resumes and not can.resume:
            raise NotCapable("this agent cannot resume a conversation")
        if plan.fork_of is not None and not can.fork:
            raise NotCapable("this agent cannot fork a conversation")
        if plan.cut_at is not None and not (can.rewind if resumes else can.fork):
            raise NotCapable("this agent cannot go back in a conversation")
        if plan.mcp_servers and not can.mcp_servers:
            raise NotCapable("this agent takes no MCP servers from a client", field="mcpServers")
        if plan.additional_directories and not can.additional_directories:
            raise NotCapable("this agent works in one directory only", field="additionalDirectories")

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        """The agent's own store holds at least one message under this id."""
        return False

    async def conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        """What the agent has stored, newest first; of one directory, if it is given."""
        raise NotCapable("the conversations of this agent cannot be listed")

    async def history(self, native_id: str, state_dir: str) -> tuple[StoredConversation, list[SessionEvent]]:
        """A stored conversation in our words. Raises AgentError `conversation_missing`."""
        raise NotCapable("the conversations of this agent cannot be read")

    async def discard(self, native_id: str, state_dir: str) -> None:
        """Delete the agent's own files of a conversation that we began. One that is gone is no error."""
        return
