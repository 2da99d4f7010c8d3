"""Identifiers. Ids are UUIDv4 in canonical form, so an id is never a path or a command-line option."""

from __future__ import annotations

import re
import uuid

from farsteer.core.errors import BadRequest, ErrorCode

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

DEFAULT_NAMESPACE = "default"
OWNER_ID = "owner"
"""Stands for the owner's token where a token is named by its id."""


def new_id() -> str:
    return str(uuid.uuid4())


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def check_id(text: str, what: str = "id") -> str:
    """Return `text` if it is a UUID in canonical form. Raises BadRequest otherwise."""
    if not is_uuid(text):
        raise BadRequest(f"{what} must be a UUID", code=ErrorCode.INVALID_ID)
    return text


def is_namespace(text: str) -> bool:
    return _NAMESPACE.fullmatch(text) is not None
