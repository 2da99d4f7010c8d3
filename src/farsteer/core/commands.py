"""Commands that the hub sends to a session. The session's actor handles them in the order they arrive."""

from __future__ import annotations

from farsteer.core.approvals import Answer
from farsteer.core.file_commands import FileCommand
from farsteer.core.identity import Identity
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import ItemState, QueueItem
from farsteer.core.session import SessionSpec
from farsteer.core.wire import WireStruct


class Create(WireStruct, tag_field="do", tag="create"):
    """Create the session and start its first launch. Answered when the agent is ready for a message."""

    spec: SessionSpec


class Send(WireStruct, tag_field="do", tag="send"):
    """Queue a message. Idempotent by the id of the item."""

    item: QueueItem


class KnownOutcome(WireStruct):
    """The result of `Send` and `Cancel`, if the item has an outcome already."""

    outcome: ItemState


class Cancel(WireStruct, tag_field="do", tag="cancel"):
    """Cancel an item, also one that has not arrived yet. Refused if the agent has it or it has another outcome."""

    item_id: str


class Settle(WireStruct, tag_field="do", tag="settle"):
    """Let the log have the outcome of an item of which the hub's log has none.

    If the runner knows another outcome, the log gets that one. Idempotent.
    """

    item_id: str
    state: ItemState
    checked: int
    """The hub's log has no outcome of the item up to this entry."""
    reason: str | None = None
    item: QueueItem | None = None
    """Its summary, for a log that never had it."""


class SendNow(WireStruct, tag_field="do", tag="send_now"):
    """Move a waiting item to the front and interrupt the running turn."""

    item_id: str


class Abort(WireStruct, tag_field="do", tag="abort"):
    """Interrupt the running turn. The queue continues."""


class Stop(WireStruct, tag_field="do", tag="stop"):
    """End the agent's process and cancel what waits. The session stays."""


class Resume(WireStruct, tag_field="do", tag="resume"):
    """Start the agent's process if none runs. Answered when the agent is ready for a message."""


class Prewarm(WireStruct, tag_field="do", tag="warm"):
    """Start a process in advance because a message is expected. Answered at once; clients do not see it."""


class Rewind(WireStruct, tag_field="do", tag="rewind"):
    """Remove entry `first_seq` and everything after it from the conversation."""

    first_seq: int
    cut_at: str | None
    """The last anchor before the entry. None if there is none: the agent starts a new conversation."""
    keeps: bool = False
    """With no anchor: the agent has already answered, so it keeps its whole memory rather than losing it."""
    files_at: str | None = None
    """Restore files to their state when this item's message was sent. None leaves files unchanged."""
    by: str | None = None
    identity: Identity | None = None


class AnswerApproval(WireStruct, tag_field="do", tag="respond"):
    """Answer an open approval."""

    approval_id: str
    answer: Answer


class Configure(WireStruct, tag_field="do", tag="configure"):
    """Change the given settings. None leaves a setting unchanged."""

    permission_mode: PermissionMode | None = None
    model: str | None = None
    effort: ReasoningEffort | None = None
    title: str | None = None
    identity: Identity | None = None
    """Who changes them."""


class SwitchAgent(WireStruct, tag_field="do", tag="switch_agent"):
    """Go on with another agent that uses the same store of conversations."""

    agent: str
    model: str | None = None
    identity: Identity | None = None


class Delete(WireStruct, tag_field="do", tag="delete"):
    """End the process and delete the session. Idempotent."""


class ListConversations(WireStruct, tag_field="do", tag="conversations"):
    """List the conversations in an agent's own store, newest first. Sent to the machine, not to a session."""

    agent: str
    directory: str | None = None
    limit: int = 100


class DescribeSessions(WireStruct, tag_field="do", tag="describe"):
    """Describe sessions that the hub does not know, as `HeldSession`s. Sent to the machine, not to a session."""

    session_ids: list[str]


class Adopt(WireStruct, tag_field="do", tag="adopt"):
    """The hub has the session now, with its log up to `acked`. Idempotent."""

    acked: int


class ShowWorktree(WireStruct, tag_field="do", tag="worktree"):
    """Describe the session's worktree, as a `WorktreeView`."""


class DiffWorktree(WireStruct, tag_field="do", tag="diff"):
    """Return what the session's worktree changes, as a `WorktreeDiff`."""

    path: str | None = None
    offset: int = 0
    limit: int = 100


class MergeWorktree(WireStruct, tag_field="do", tag="merge"):
    """Merge the branch of the session's worktree. Answered with `WorktreeMoved`. A repetition merges nothing twice."""

    into: str | None = None
    force: bool = False


class RebaseWorktree(WireStruct, tag_field="do", tag="rebase"):
    """Rebase the branch of the session's worktree. Answered with `WorktreeMoved`."""

    onto: str | None = None


class NameBranch(WireStruct, tag_field="do", tag="branch"):
    """Make the branch of the session's worktree ready to be pushed. Answered with `BranchReady`."""

    name: str | None = None


class DiscardWorktree(WireStruct, tag_field="do", tag="discard"):
    """Stop the agent, and remove the session's worktree and its branch. Idempotent."""

    force: bool = False


class ListWorktrees(WireStruct, tag_field="do", tag="worktrees"):
    """List the worktrees that this runner made, as a `WorktreesResponse`. Sent to the machine, not to a session."""


class CleanWorktrees(WireStruct, tag_field="do", tag="clean_worktrees"):
    """Remove worktrees whose session was deleted. Answered with `WorktreesCleaned`. Sent to the machine."""

    paths: list[str] | None = None
    force: bool = False


WorktreeCommand = ShowWorktree | DiffWorktree | MergeWorktree | RebaseWorktree | NameBranch | DiscardWorktree
"""Commands about the worktree of a session."""
Command = (
    Create | Send | SendNow | Cancel | Settle | Abort | Stop | Resume | Prewarm | Rewind | AnswerApproval | Configure
    | SwitchAgent | Delete | ListConversations | DescribeSessions | Adopt | WorktreeCommand | ListWorktrees
    | CleanWorktrees | FileCommand
)  # fmt: skip
