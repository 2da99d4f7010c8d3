"""The wire formats of models, one module each."""

from __future__ import annotations

import re

from tests.support.model.dialects.anthropic import Anthropic
from tests.support.model.dialects.base import Block, Dialect, Event
from tests.support.model.dialects.chat import Chat
from tests.support.model.dialects.gemini import Gemini
from tests.support.model.dialects.responses import Responses

__all__ = ["Anthropic", "Block", "Chat", "Dialect", "Event", "Gemini", "Responses", "dialect_of"]

# By the tail of the address, never by its head: agents put what they like before it.
_ROUTES: list[tuple[re.Pattern[str], type[Dialect]]] = [
    (re.compile(r"/messages$"), Anthropic),
    (re.compile(r"/responses$"), Responses),
    (re.compile(r"/chat/completions$"), Chat),
    (re.compile(r"/models/[^/]+:(stream)?[gG]enerateContent$"), Gemini),
]


def dialect_of(path: str) -> type[Dialect] | None:
    return next((dialect for route, dialect in _ROUTES if route.search(path)), None)
