"""Why Claude Code did not start, by what it said."""

from __future__ import annotations

from collections.abc import Sequence

from farsteer.core.errors import AgentError, ErrorCode

_CODES = {
    "is already in use": ErrorCode.CONVERSATION_IN_USE,
    "No conversation found": ErrorCode.CONVERSATION_MISSING,
    "No message found with message.uuid": ErrorCode.ANCHOR_UNKNOWN,
}
_REASON_CHARS = 500


def start_error(message: str, stderr: str, errors: Sequence[str]) -> AgentError:
    """Return the error of a start that failed.

    Args:
        message: What we know.
        stderr: What Claude Code wrote to stderr. Only this tells a conversation that does not exist from other reasons.
        errors: The errors of a result, if it sent one.
    """
    said = "\n".join([*errors, stderr])
    for words, code in _CODES.items():
        if words in said:
            reason = next(line for line in said.splitlines() if words in line)
            return AgentError(f"Claude Code: {reason[:_REASON_CHARS]}", code=code, stderr=stderr or None)
    return AgentError(message, code=ErrorCode.AGENT_START_FAILED, stderr=stderr or None)
