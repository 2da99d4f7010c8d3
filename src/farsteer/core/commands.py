"""What can be asked of a session. Each command goes through its mailbox, in order."""

from __future__ import annotations

from farsteer.core.approvals import Answer
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec
from farsteer.core.wire import WireStruct


class Create(WireStruct, tag_field="do", tag="create"):
    """Start the session's first launch. Answered when the agent is ready to take a message."""

    spec: SessionSpec


class Send(WireStruct, tag_field="do", tag="send"):
    """Queue a message. Idempotent by the item's id."""

    item: QueueItem


class Cancel(WireStruct, tag_field="do", tag="cancel"):
    """Take an item out of the queue, or refuse because the agent has it."""

    item_id: str


class SendNow(WireStruct, tag_field="do", tag="send_now"):
    """Put a waiting item first and interrupt the running turn for it."""

    item_id: str


class Abort(WireStruct, tag_field="do", tag="abort"):
    """Interrupt the running turn; the queue goes on."""


class Stop(WireStruct, tag_field="do", tag="stop"):
    """End the process, keep the session."""


class Resume(WireStruct, tag_field="do", tag="resume"):
    """Make sure a process runs."""


class Prewarm(WireStruct, tag_field="do", tag="warm"):
    """A message is near: start a process for it, unseen. Answered at once."""


class Rewind(WireStruct, tag_field="do", tag="rewind"):
    """Go on from before entry `first_seq`. The hub has the log, so it says where the agent must cut."""

    first_seq: int
    cut_at: str | None
    """The last anchor before the entry; None: there is none, the agent begins anew."""
    keeps: bool = False
    """With no anchor: the agent has answered before the entry, and keeps all it knows rather than nothing."""
    files_at: str | None = None
    """Restore files to what they were when the message of this item was sent; None: leave them."""
    by: str | None = None


class AnswerApproval(WireStruct, tag_field="do", tag="respond"):
    approval_id: str
    answer: Answer


class Configure(WireStruct, tag_field="do", tag="configure"):
    """Change what is given; None leaves a value as it is."""

    permission_mode: PermissionMode | None = None
    model: str | None = None
    effort: ReasoningEffort | None = None
    title: str | None = None


class Delete(WireStruct, tag_field="do", tag="delete"):
    """End the process and forget the session. Idempotent."""


class ListConversations(WireStruct, tag_field="do", tag="conversations"):
    """List what an agent of this machine has stored, newest first. A command to the machine, not to a session."""

    agent: str
    directory: str | None = None
    limit: int = 100


Command = (
    Create | Send | SendNow | Cancel | Abort | Stop | Resume | Prewarm | Rewind | AnswerApproval | Configure | Delete
    | ListConversations
)  # fmt: skip
