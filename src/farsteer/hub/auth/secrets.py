"""The hub's own secrets: the owner's access token and the key that signs JWTs, each in a file for the owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from farsteer.core.errors import BadRequest
from farsteer.storage.home import read_secret, write_secret

TOKEN_FILE = "token"  # noqa: S105
KEY_FILE = "jwt.key"
TOKEN_VARIABLE = "CLI_API_TOKEN"  # noqa: S105
_KEY_BYTES = 32


def owner_token(home: Path, given: str | None = None) -> str:
    """`given`, else the one of the environment, else the one in the home, made once."""
    if given is not None:
        return _checked(given, "the owner token")
    from_environment = os.environ.get(TOKEN_VARIABLE)
    if from_environment is not None:
        return _checked(from_environment, TOKEN_VARIABLE)
    path = home / TOKEN_FILE
    stored = read_secret(path)
    if stored is not None:
        # an editor may have ended the line, and put a byte order mark before it
        line = stored.decode("utf-8-sig", errors="replace").removesuffix("\n").removesuffix("\r")
        return _checked(line, str(path))
    token = secrets.token_urlsafe(32)
    write_secret(path, token.encode() + b"\n")
    return token


def _checked(token: str, what: str) -> str:
    if not token.strip():
        raise BadRequest(f"{what} is empty")
    if token != token.strip():
        raise BadRequest(f"{what} begins or ends with white space")
    if ":" in token:
        raise BadRequest(f"{what} holds a colon, which separates a token from its namespace")
    return token


def signing_key(home: Path) -> bytes:
    path = home / KEY_FILE
    key = read_secret(path)
    if key is None:
        key = secrets.token_bytes(_KEY_BYTES)
        write_secret(path, key)
    if len(key) != _KEY_BYTES:
        raise BadRequest(f"{path} is damaged; remove it to have a new one made, which signs everybody out")
    return key
