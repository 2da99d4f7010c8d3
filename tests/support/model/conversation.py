"""A request to the model, independent of its wire format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Role = Literal["user", "assistant", "tool"]
Json = dict[str, Any]

# What CLIs put into a person's message besides the person's words.
_INJECTED = re.compile(
    r"<(system-reminder|environment_context|user_instructions|user_info|session_context|INSTRUCTIONS)\b.*?</\1>",
    re.DOTALL,
)
_WRAPPED = re.compile(r"\s*<user_query>(.*)</user_query>\s*", re.DOTALL)
_NEW = "[[new]]"
_NEVER = "Approval policy is currently never"
_HEAD = 80


class Tool(NamedTuple):
    """A tool that the request offers. A `custom` tool takes free text, a `function` tool JSON."""

    name: str
    schema: Json
    kind: Literal["function", "custom"] = "function"


class Message(NamedTuple):
    """A message of a person, the model or a tool. Of a person only their own words, one text per block."""

    role: Role
    texts: tuple[str, ...]
    images: int = 0


@dataclass(frozen=True)
class Conversation:
    wire: str
    model: str
    effort: str | None
    stream: bool
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    instructions: str = ""
    """What the agent tells the model besides the messages, if the wire format has a place for it."""

    @property
    def script(self) -> str:
        """The last text of a person: the block with directives, or else the last block."""
        for message in reversed(self.messages):
            if message.role == "user" and message.texts:
                scripted = [text for text in message.texts if "[[" in text]
                return (scripted or message.texts)[-1].rpartition(_NEW)[2].strip()
        return ""

    @property
    def results(self) -> tuple[str, ...]:
        """The results of tools since the script was sent."""
        found: list[str] = []
        for message in reversed(self.messages):
            if message.role == "user" and message.texts:
                break
            if message.role == "tool":
                found[:0] = ["\n".join(message.texts)]
        return tuple(found)

    @property
    def images(self) -> int:
        """The number of images in the last message of a person."""
        return next((message.images for message in reversed(self.messages) if message.role == "user"), 0)

    @property
    def may_escalate(self) -> bool:
        """False if Codex tells the model that nobody answers requests to leave the sandbox."""
        return _NEVER not in self.instructions

    @property
    def is_side(self) -> bool:
        """True for a title, summary or classification request: it has no tools and the model is not `plain`."""
        return not self.tools and "plain" not in self.model

    def heads(self) -> list[tuple[Role, str]]:
        """Role and beginning of each message."""
        return [(message.role, " ".join(message.texts)[:_HEAD]) for message in self.messages]


def message(role: Role, texts: Iterable[str], images: int = 0) -> list[Message]:
    """Return the message in a list, or an empty list if it holds injected notes only."""
    kept = (
        [own for own in map(_own_words, texts) if own] if role == "user" else [text for text in texts if text]
    )
    return [Message(role, tuple(kept), images)] if kept or images or role == "tool" else []


def _own_words(text: str) -> str:
    own = _INJECTED.sub("", text).strip()
    wrapped = _WRAPPED.fullmatch(own)
    return wrapped[1].strip() if wrapped else own
