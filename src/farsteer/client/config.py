"""Finds the hub and the access token: in arguments, the environment and the home directory, in this order."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from farsteer.client.settings import find, find_flag, find_text, home_dir, read_own_file
from farsteer.core.errors import BadRequest, Unauthorized

DEFAULT_URL = "http://127.0.0.1:3006"


class HubFile(msgspec.Struct, frozen=True):
    """`hub.json` in the home directory: the hub that runs on it."""

    url: str
    pid: int


class Login(msgspec.Struct, frozen=True):
    """`login.json` in the home directory: what `farsteer login` stored."""

    url: str
    token: str


def hub_file(home: Path) -> Path:
    return home / "hub.json"


def token_file(home: Path) -> Path:
    return home / "token"


def login_file(home: Path) -> Path:
    return home / "login.json"


def stored_login(home: Path) -> Login | None:
    """Return what `farsteer login` stored, or None."""
    try:
        return msgspec.json.decode(read_own_file(login_file(home)), type=Login)
    except (OSError, msgspec.DecodeError):
        return None


def running_hub(home: Path) -> HubFile | None:
    """Return the hub that runs on `home`, or None if there is none or its process has ended."""
    try:
        found = msgspec.json.decode(read_own_file(hub_file(home)), type=HubFile)
    except (OSError, msgspec.DecodeError):
        return None
    return found if _is_running(found.pid) else None


def _is_running(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # another user's process has got the number of a hub that was killed
    return True


def find_url(url: str | None = None, *, allow_insecure: bool = False) -> str:
    """Return the address of the hub to use.

    That is the first of: `url`, `$FARSTEER_HUB`, `hub` in `config.toml`, the hub that runs on the home directory, the
    hub of `farsteer login`, and `DEFAULT_URL`.

    Raises:
        BadRequest: As `check_url`.
    """
    running, login = running_hub(home_dir()), stored_login(home_dir())
    url = find_text("hub", url or None)
    if url:
        given = check_url(url, allow_insecure=allow_insecure).rstrip("/")
        return running.url if running and _is_same_hub(given, running.url) else given
    return running.url if running else login.url if login else DEFAULT_URL


def _is_same_hub(given: str, running: str) -> bool:
    """Whether an address is that of the running hub, which then replaces it: `localhost` may have two addresses."""
    left, right = urlsplit(given), urlsplit(running)
    if (left.scheme, left.port, left.path) != (right.scheme, right.port, right.path):
        return False
    return left.hostname == right.hostname or (left.hostname == "localhost" and is_loopback(running))


def find_token(url: str, token: str | None = None) -> str:
    """Return the access token for the hub at `url`, as `find_url` returns it.

    That is the first of: `token`, `$CLI_API_TOKEN`, the token of `farsteer login` if that was for this hub, and the
    token file of the home directory if this hub runs on it. That file holds the owner's token, so that it goes to no
    other hub.

    Raises:
        Unauthorized: There is none, or the token file cannot be read.
    """
    token = find_text("token", token or None)
    if token:
        return token.strip()
    home = home_dir()
    login, running = stored_login(home), running_hub(home)
    if login is not None and login.url == url:
        return login.token
    if running is None or running.url != url:
        raise Unauthorized(
            f"no access token for {url}: run `farsteer login --hub {url}`, or set CLI_API_TOKEN to a token of that hub "
            f"(the token in {home} is sent only to the hub that runs there)"
        )
    path = token_file(home)
    try:
        stored = read_own_file(path).decode("utf-8-sig").strip()
    except FileNotFoundError:
        stored = ""
    except OSError as error:
        raise Unauthorized(f"cannot read the token file {path}: {error.strerror}") from error
    if not stored:
        raise Unauthorized(f"no access token: set CLI_API_TOKEN, or write the hub's token to {path}")
    return stored


def token_source(url: str) -> str | None:
    """Return where `find_token` finds the token for the hub at `url`, or None if there is none."""
    home = home_dir()
    login, running = stored_login(home), running_hub(home)
    if (found := find("token")).is_set:
        return found.source
    if login is not None and login.url == url:
        return "farsteer login"
    is_own = running is not None and running.url == url
    return str(token_file(home)) if is_own and token_file(home).exists() else None


def check_url(url: str, *, allow_insecure: bool = False) -> str:
    """Return `url` if it is the address of a hub and the connection protects the access token.

    Args:
        url: An address with http or https.
        allow_insecure: Accept http to another machine, as `$FARSTEER_ALLOW_INSECURE=1` and `allow_insecure = true` in
            `config.toml` do.

    Raises:
        BadRequest: It is not an address, or it would send the token unencrypted to another machine.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise BadRequest(f"not a hub address: {url!r}; it looks like {DEFAULT_URL}")
    is_encrypted = url.startswith("https:")
    if not (is_encrypted or is_loopback(url) or allow_insecure or find_flag("allow_insecure")):
        raise BadRequest(
            f"{url} would send the token unencrypted: use https, or set FARSTEER_ALLOW_INSECURE=1 "
            "on a trusted network"
        )
    return url


def is_loopback(url: str) -> bool:
    """Return whether `url` is on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return a path without `~` and relative parts, as seen from this process."""
    return os.path.abspath(os.path.expanduser(path))
