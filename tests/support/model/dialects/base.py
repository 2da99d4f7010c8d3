"""The interface of a wire format: read a request, write an answer in blocks or whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple
from uuid import uuid4

from tests.support.model.conversation import Conversation, Json
from tests.support.model.tools import Call

INPUT_TOKENS, OUTPUT_TOKENS = 100, 10
"""What every answer costs, so that a test can count the calls in the usage."""


class Event(NamedTuple):
    """A server-sent event."""

    data: Json | str
    name: str | None = None


@dataclass
class Block:
    """A text, a thought, a tool call or a web search of the provider, numbered from 0."""

    kind: Literal["text", "thought", "call", "search"]
    index: int
    call: Call | None = None
    parts: list[str] = field(default_factory=list)
    id: str = field(default_factory=lambda: uuid4().hex[:12])

    @property
    def text(self) -> str:
        return "".join(self.parts)


class Dialect(ABC):
    """One answer in one wire format."""

    wire: ClassVar[str]

    def __init__(self, model: str) -> None:
        self.model = model
        self.id = uuid4().hex

    @classmethod
    @abstractmethod
    def read(cls, path: str, body: Json) -> Conversation: ...

    @classmethod
    @abstractmethod
    def error(cls, status: int, message: str) -> Json:
        """Return the body of an HTTP error."""

    @abstractmethod
    def whole(self, blocks: Sequence[Block]) -> Json:
        """Return the answer to a request without streaming."""

    def begin(self) -> list[Event]:
        return []

    def open(self, block: Block) -> list[Event]:
        return []

    @abstractmethod
    def delta(self, block: Block, text: str) -> list[Event]: ...

    def close(self, block: Block) -> list[Event]:
        return []

    @abstractmethod
    def end(self, blocks: Sequence[Block]) -> list[Event]: ...

    def fail(self, status: int, message: str) -> list[Event]:
        """Return the events of an error after the stream has started."""
        return [Event(self.error(status, message))]


def calls(blocks: Sequence[Block]) -> list[Call]:
    return [block.call for block in blocks if block.call is not None]
