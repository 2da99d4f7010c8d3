"""The last line of the screen: what the session does, with what, where, and whether there is a connection."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from farsteer.cli.terminal.conversation import Conversation, token_text
from farsteer.cli.terminal.text import Style, columns
from farsteer.core.modes import PermissionMode
from farsteer.core.text import clean_line

_HELP = "F1 help"


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    style: str
    rank: int
    """Parts with a higher number are left out first where there is little room."""


def status_line(
    conversation: Conversation, machine: str, *, connected: bool, unread: bool, width: int
) -> Text:
    """Return the status line in at most `width` columns."""
    session = conversation.session
    state = _Part(conversation.state_text, Style.ASK if conversation.prompts else Style.DIM, 0)
    if conversation.working and not conversation.prompts:
        state = _Part(conversation.state_text, Style.GOOD, 0)
    mode = session.permission_mode
    effort = session.model_reasoning_effort
    parts = [
        _Part("" if connected else "NOT CONNECTED, trying again", f"{Style.BAD} bold", -1),
        state,
        _Part("" if not unread else "more below: Ctrl-End", Style.ASK, 1),
        _Part(session.agent, "", 2),
        _Part(session.model or "", "", 3),
        _Part(mode.value, Style.BAD if mode in (PermissionMode.YOLO, PermissionMode.BYPASS) else "", 2),
        _Part(effort.value if effort else "", "", 6),
        _Part(token_text(session), "", 5),
        _Part(machine, "", 4),
        _Part("connected" if connected else "", Style.DIM, 7),
        _Part(_HELP, Style.DIM, 3),
    ]
    parts = [_Part(clean_line(part.text, 60), part.style, part.rank) for part in parts if part.text]
    while len(parts) > 1 and sum(columns(part.text) + 3 for part in parts) - 3 > width:
        parts.remove(max(parts, key=lambda part: part.rank))
    line = Text(no_wrap=True)
    for part in parts:
        line.append(" · " if line else "", style=Style.DIM).append(part.text, style=part.style)
    line.truncate(width, overflow="ellipsis")
    return line
