"""What can be asked of a session. Each command goes through its mailbox, in order."""

from __future__ import annotations

from farsteer.core.approvals import Answer
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec
from farsteer.core.wire import Wire


class Create(Wire, tag_field="do", tag="create"):
    """Start the session's first launch. Answered when the agent is ready to take a message."""

    spec: SessionSpec


class Send(Wire, tag_field="do", tag="send"):
    """Queue a message. Idempotent by the item's id."""

    item: QueueItem


class Cancel(Wire, tag_field="do", tag="cancel"):
    """Take an item out of the queue, or refuse because the agent has it."""

    item_id: str


class Abort(Wire, tag_field="do", tag="abort"):
    """Interrupt the running turn; the queue goes on."""


class Stop(Wire, tag_field="do", tag="stop"):
    """End the process, keep the session."""


class Resume(Wire, tag_field="do", tag="resume"):
    """Make sure a process runs."""


class Respond(Wire, tag_field="do", tag="respond"):
    approval_id: str
    answer: Answer


class Configure(Wire, tag_field="do", tag="configure"):
    """Change what is given; None leaves a value as it is."""

    permission_mode: PermissionMode | None = None
    model: str | None = None
    effort: ReasoningEffort | None = None
    title: str | None = None


class Delete(Wire, tag_field="do", tag="delete"):
    """End the process and forget the session. Idempotent."""


Command = Create | Send | Cancel | Abort | Stop | Resume | Respond | Configure | Delete
