"""The owner's access token and the key that signs JWTs, each in a file that only the owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from farsteer.core.errors import BadRequest
from farsteer.storage.home import read_secret, write_secret

_OWNER_FILE = "token"
_OWNER_VARIABLE = "CLI_API_TOKEN"
MIN_LENGTH = 16
"""Shorter owner tokens are refused, because they could be guessed."""
_KEY_FILE = "jwt.key"
_KEY_BYTES = 32


def load_owner_token(home: Path, given: str | None = None) -> str:
    """Return `given`, else CLI_API_TOKEN, else the token stored in `home`, which is generated if missing.

    Raises BadRequest if the token is shorter than MIN_LENGTH, padded with white space or contains a colon.
    """
    if given is not None:
        return _check_token(given, "the owner token")
    from_environment = os.environ.get(_OWNER_VARIABLE)
    if from_environment is not None:
        return _check_token(from_environment, _OWNER_VARIABLE)
    path = home / _OWNER_FILE
    stored = read_secret(path)
    if stored is not None:
        # An editor may have added a line ending and a byte order mark.
        line = stored.decode("utf-8-sig", errors="replace").removesuffix("\n").removesuffix("\r")
        return _check_token(line, str(path))
    token = secrets.token_urlsafe(32)
    write_secret(path, token.encode() + b"\n")
    return token


def _check_token(token: str, source: str) -> str:
    if not token.strip():
        raise BadRequest(f"{source} is empty")
    if token != token.strip():
        raise BadRequest(f"{source} begins or ends with white space")
    if len(token) < MIN_LENGTH:
        raise BadRequest(
            f"{source} has fewer than {MIN_LENGTH} characters and could be guessed: make a longer one, for example "
            "with `python3 -c 'import secrets; print(secrets.token_urlsafe(32))'`, or remove it to have one generated"
        )
    if ":" in token:
        raise BadRequest(f"{source} contains a colon, which separates a token from its namespace")
    return token


def load_signing_key(home: Path) -> bytes:
    """Return the key stored in `home`, generated if missing. Raises BadRequest if the file is damaged."""
    path = home / _KEY_FILE
    key = read_secret(path)
    if key is None:
        key = secrets.token_bytes(_KEY_BYTES)
        write_secret(path, key)
    if len(key) != _KEY_BYTES:
        raise BadRequest(f"{path} is damaged; remove it to generate a new key, which signs out every client")
    return key
