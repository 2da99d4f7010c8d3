"""The error tree.

FarsteerError
├── BadRequest          400  the request is wrong; nothing was changed
├── Unauthorized        401  the token is missing, wrong or expired
├── Forbidden           403  the token lacks a scope
├── NotFound            404  no such object in the caller's namespace
├── MethodNotAllowed    405  the path exists, but not with this method
├── RequestTimeout      408  the request did not arrive in time
├── Conflict            409  the object's current state does not allow this
│   ├── MachineOffline       the machine has no live link
│   ├── IdentityInUse        another runner acts as this machine
│   ├── AlreadyAnswered      this approval already has an answer
│   └── ApprovalNeeded       the turn waits for an answer that the caller has not prepared (Python SDK only)
├── TooLarge            413  a body, frame or line over its limit
├── UnsupportedMedia    415  the body is not JSON
├── Unprocessable       422  the request is valid but cannot be carried out on that machine
│   ├── AgentError           the agent is missing, failed to start, died or sent invalid data
│   └── NotCapable           the agent does not support this
├── RateLimited         429  too many requests
│   └── QuotaExceeded        a limit of the hub's or the machine's owner is reached
├── HeadersTooLarge     431  request line and headers are too long or too many
├── Unavailable         503  the other side cannot be reached, did not answer in time or is shutting down
│   └── TimedOut             it took longer than the timeout; it may still happen
└── Internal            500  a defect in Farsteer

Callers branch on `code`, which is stable, and never on the message.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

if TYPE_CHECKING:
    from farsteer.core.approvals import Approval


class ErrorCode(StrEnum):
    """The stable code of an error, which programs branch on."""

    BAD_REQUEST = "bad_request"
    INVALID_JSON = "invalid_json"
    UNKNOWN_FIELD = "unknown_field"
    INVALID_ID = "invalid_id"
    MODEL_UNKNOWN = "model_unknown"
    EFFORT_UNKNOWN = "effort_unknown"
    FIELD_NOT_USED = "field_not_used"
    UNAUTHORIZED = "unauthorized"
    TOKEN_EXPIRED = "token_expired"  # noqa: S105
    FORBIDDEN = "forbidden"
    HOST_NOT_ALLOWED = "host_not_allowed"
    ORIGIN_NOT_ALLOWED = "origin_not_allowed"
    NOT_FOUND = "not_found"
    MACHINE_NOT_FOUND = "machine_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    SESSION_ID_TAKEN = "session_id_taken"
    MACHINE_OFFLINE = "machine_offline"
    IDENTITY_IN_USE = "identity_in_use"
    ALREADY_ANSWERED = "already_answered"
    APPROVAL_NEEDED = "approval_needed"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    DRAFT_OUTDATED = "draft_outdated"
    QUEUE_FULL = "queue_full"
    NOT_CANCELLABLE = "not_cancellable"
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA = "unsupported_media"
    DIRECTORY_MISSING = "directory_missing"
    DIRECTORY_NOT_ALLOWED = "directory_not_allowed"
    FILE_MISSING = "file_missing"
    FILE_NOT_ALLOWED = "file_not_allowed"
    FILE_UNREADABLE = "file_unreadable"
    GIT_FAILED = "git_failed"
    NOT_A_REPOSITORY = "not_a_repository"
    WORKTREE_FAILED = "worktree_failed"
    WORKTREE_MISSING = "worktree_missing"
    WORKTREE_CHANGES = "worktree_changes"
    WORKTREE_SETUP_FAILED = "worktree_setup_failed"
    BASE_UNKNOWN = "base_unknown"
    MERGE_CONFLICT = "merge_conflict"
    TURN_RUNNING = "turn_running"
    AGENT_UNKNOWN = "agent_unknown"
    AGENT_NOT_INSTALLED = "agent_not_installed"
    AGENT_START_FAILED = "agent_start_failed"
    AGENT_DIED = "agent_died"
    MESSAGE_NOT_TAKEN = "message_not_taken"
    AGENT_PROTOCOL = "agent_protocol"
    AGENT_FAILED = "agent_failed"
    CONVERSATION_MISSING = "conversation_missing"
    CONVERSATION_IN_USE = "conversation_in_use"
    ANCHOR_UNKNOWN = "anchor_unknown"
    TURN_CANCELLED = "turn_cancelled"
    NOT_CAPABLE = "not_capable"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXCEEDED = "quota_exceeded"
    HEADERS_TOO_LARGE = "headers_too_large"
    TOO_MANY_SOCKETS = "too_many_sockets"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    DATABASE_DAMAGED = "database_damaged"
    DISK_FULL = "disk_full"
    HOME_REMOVED = "home_removed"
    INTERNAL = "internal"


class FarsteerError(Exception):
    """Base of all errors. `code` is stable, `status` is the HTTP status, and `details` may be shown to the caller."""

    code: ErrorCode = ErrorCode.INTERNAL
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, code: ErrorCode | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.details = details

    def record(self) -> ErrorRecord:
        return ErrorRecord(
            code=self.code, message=self.message, status=self.status, details=self.details or None
        )


class BadRequest(FarsteerError):
    """The request is wrong; nothing was changed."""

    code = ErrorCode.BAD_REQUEST
    status = 400


class Unauthorized(FarsteerError):
    """The access token is missing, wrong or expired."""

    code = ErrorCode.UNAUTHORIZED
    status = 401


class Forbidden(FarsteerError):
    """The token lacks a scope."""

    code = ErrorCode.FORBIDDEN
    status = 403


class NotFound(FarsteerError):
    """There is no such object in the caller's namespace."""

    code = ErrorCode.NOT_FOUND
    status = 404


class MethodNotAllowed(FarsteerError):
    code = ErrorCode.METHOD_NOT_ALLOWED
    status = 405


class RequestTimeout(FarsteerError):
    code = ErrorCode.TIMEOUT
    status = 408


class Conflict(FarsteerError):
    """The object's current state does not allow this."""

    code = ErrorCode.CONFLICT
    status = 409


class MachineOffline(Conflict):
    """The machine has no live link."""

    code = ErrorCode.MACHINE_OFFLINE

    def __init__(self, message: str = "Machine is offline", **details: Any) -> None:
        super().__init__(message, **details)


class IdentityInUse(Conflict):
    """Raised for a runner whose identity another one uses. It never reaches a client."""

    code = ErrorCode.IDENTITY_IN_USE

    def __init__(self, message: str, *, retry_after: float = 0.0, is_new: bool = True) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_new = is_new


class AlreadyAnswered(Conflict):
    """Somebody else has answered this approval. `details` say how, and by whom."""

    code = ErrorCode.ALREADY_ANSWERED


class ApprovalNeeded(Conflict):
    """Raised by the SDK's `ask` and `wait` if the agent asks something and the caller gave no `on_approval`.

    Nothing is answered, and the turn goes on waiting. Answer with `session.approve(error.approval.id)` or
    `session.deny(error.approval.id)`, then get the result of the turn with `session.wait(error.item_id)`.
    """

    code = ErrorCode.APPROVAL_NEEDED

    def __init__(self, approval: Approval, *, session_id: str, item_id: str) -> None:
        super().__init__(
            f"the agent asks: {approval.title}; answer with session.approve({approval.id!r}) or "
            f"session.deny({approval.id!r}), then call session.wait({item_id!r}); or pass on_approval",
            session_id=session_id,
            item_id=item_id,
            approval_id=approval.id,
        )
        self.approval = approval
        """What the agent asks."""
        self.session_id = session_id
        self.item_id = item_id
        """The message whose turn waits."""


class TooLarge(FarsteerError):
    """A body, frame or line is over its limit."""

    code = ErrorCode.TOO_LARGE
    status = 413


class UnsupportedMedia(FarsteerError):
    code = ErrorCode.UNSUPPORTED_MEDIA
    status = 415


class Unprocessable(FarsteerError):
    """The request is valid but cannot be carried out on that machine."""

    code = ErrorCode.BAD_REQUEST
    status = 422


class AgentError(Unprocessable):
    """The agent is missing, failed to start, died or sent invalid data."""

    code = ErrorCode.AGENT_START_FAILED


class NotCapable(Unprocessable):
    """The agent does not support this."""

    code = ErrorCode.NOT_CAPABLE


class RateLimited(FarsteerError):
    """There were too many requests."""

    code = ErrorCode.RATE_LIMITED
    status = 429


class QuotaExceeded(RateLimited):
    """`details` say which limit: `kind` and `limit`."""

    code = ErrorCode.QUOTA_EXCEEDED


class HeadersTooLarge(FarsteerError):
    code = ErrorCode.HEADERS_TOO_LARGE
    status = 431


class Unavailable(FarsteerError):
    """The other side cannot be reached, did not answer in time or is shutting down."""

    code = ErrorCode.UNAVAILABLE
    status = 503


class TimedOut(Unavailable):
    """Raised if something took longer than its timeout. Whether it still happens is unknown."""

    code = ErrorCode.TIMEOUT


class Internal(FarsteerError):
    """A defect in Farsteer."""

    code = ErrorCode.INTERNAL
    status = 500


class ErrorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error in serialized form, as sent over the link and in responses."""

    code: ErrorCode
    message: str
    status: int = 500
    details: dict[str, Any] | None = None

    def to_error(self) -> FarsteerError:
        kind = _BY_STATUS.get(self.status, Internal)
        if self.code == ErrorCode.MACHINE_OFFLINE:
            kind = MachineOffline
        elif self.code == ErrorCode.ALREADY_ANSWERED:
            kind = AlreadyAnswered
        elif self.code == ErrorCode.NOT_CAPABLE:
            kind = NotCapable
        elif self.code == ErrorCode.QUOTA_EXCEEDED:
            kind = QuotaExceeded
        elif self.code == ErrorCode.TIMEOUT and self.status == Unavailable.status:
            kind = TimedOut
        error = kind(self.message)
        error.code = self.code
        # Assigned, not passed as keywords: a detail may be named `message` or `code`.
        error.details = dict(self.details or {})
        return error


_BY_STATUS: dict[int, type[FarsteerError]] = {
    kind.status: kind
    for kind in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, RequestTimeout, Conflict, TooLarge,
        UnsupportedMedia, Unprocessable, RateLimited, HeadersTooLarge, Unavailable, Internal,
    )
}  # fmt: skip
