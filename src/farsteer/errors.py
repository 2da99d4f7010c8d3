"""Every error that the SDK raises.

    from farsteer import Client, errors

    try:
        answer = session.ask("run the tests", timeout=600)
    except errors.TimedOut:
        session.abort()
    except errors.FarsteerError as error:
        print(error.code, error.message, error.details)

`FarsteerError` is the base of all of them. Its `code` is stable; branch on it or on the class, never on the message.

FarsteerError
├── BadRequest              the request is wrong; nothing was changed
├── Unauthorized            the access token is missing, wrong or expired
├── Forbidden               the token lacks a scope
├── NotFound                there is no such object in the namespace of the token
├── Conflict                the current state does not allow this; or the turn was cancelled
│   ├── ApprovalNeeded      `ask` or `wait` has no `on_approval`, and the agent asks something
│   ├── AlreadyAnswered     somebody else has answered this approval
│   └── MachineOffline      the machine is not connected
├── TooLarge                a message or an attachment is over its limit
├── Unprocessable           the request is valid but cannot be carried out on that machine
│   ├── AgentError          the agent is missing, did not start, failed or died
│   └── NotCapable          the agent does not support this
├── RateLimited             too many requests
│   └── QuotaExceeded       a limit of the hub's or the machine's owner is reached
├── Unavailable             the hub or the runner cannot be reached, or is shutting down
│   └── TimedOut            it took longer than the timeout; it may still happen
└── Internal                a defect in Farsteer
"""

from farsteer.core.errors import (
    AgentError,
    AlreadyAnswered,
    ApprovalNeeded,
    BadRequest,
    Conflict,
    ErrorCode,
    FarsteerError,
    Forbidden,
    Internal,
    MachineOffline,
    NotCapable,
    NotFound,
    QuotaExceeded,
    RateLimited,
    TimedOut,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unprocessable,
)

__all__ = [
    "AgentError",
    "AlreadyAnswered",
    "ApprovalNeeded",
    "BadRequest",
    "Conflict",
    "ErrorCode",
    "FarsteerError",
    "Forbidden",
    "Internal",
    "MachineOffline",
    "NotCapable",
    "NotFound",
    "QuotaExceeded",
    "RateLimited",
    "TimedOut",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "Unprocessable",
]
