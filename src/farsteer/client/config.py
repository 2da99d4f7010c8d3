"""Finds the hub and the access token: in arguments, the environment and the home directory, in this order."""

from __future__ import annotations

import errno
import ipaddress
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

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


def home_dir() -> Path:
    """Return the home directory: `$FARSTEER_HOME`, or `~/.farsteer`."""
    return Path(os.environ.get("FARSTEER_HOME") or "~/.farsteer").expanduser().absolute()


def hub_file(home: Path) -> Path:
    return home / "hub.json"


def token_file(home: Path) -> Path:
    return home / "token"


def login_file(home: Path) -> Path:
    return home / "login.json"


def stored_login(home: Path) -> Login | None:
    """Return what `farsteer login` stored, or None."""
    try:
        return msgspec.json.decode(_read_own_file(login_file(home)), type=Login)
    except (OSError, msgspec.DecodeError):
        return None


def running_hub(home: Path) -> HubFile | None:
    """Return the hub that runs on `home`, or None if there is none or its process has ended."""
    try:
        found = msgspec.json.decode(_read_own_file(hub_file(home)), type=HubFile)
    except (OSError, msgspec.DecodeError):
        return None
    return found if _is_running(found.pid) else None


def _read_own_file(path: Path) -> bytes:
    """Read a file of the home directory. Raises OSError, also for a symbolic link and for a file of another user."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(file, "rb") as stream:
        if sys.platform != "win32" and os.fstat(file).st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
        return stream.read()


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

    That is the first of: `url`, `$FARSTEER_HUB`, the hub that runs on the home directory, the hub of
    `farsteer login`, and `DEFAULT_URL`.

    Raises:
        BadRequest: As `check_url`.
    """
    running, login = running_hub(home_dir()), stored_login(home_dir())
    url = url or os.environ.get("FARSTEER_HUB")
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
    token = token or os.environ.get("CLI_API_TOKEN")
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
        stored = _read_own_file(path).decode("utf-8-sig").strip()
    except FileNotFoundError:
        stored = ""
    except OSError as error:
        raise Unauthorized(f"cannot read the token file {path}: {error.strerror}") from error
    if not stored:
        raise Unauthorized(f"no access token: set CLI_API_TOKEN, or write the hub's token to {path}")
    return stored


def check_url(url: str, *, allow_insecure: bool = False) -> str:
    """Return `url` if it is the address of a hub and the connection protects the access token.

    Args:
        url: An address with http or https.
        allow_insecure: Accept http to another machine, as `$FARSTEER_ALLOW_INSECURE=1` does.

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
    if url.startswith("http:") and not is_loopback(url):
        allowed = allow_insecure or os.environ.get("FARSTEER_ALLOW_INSECURE") == "1"
        if not allowed:
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
