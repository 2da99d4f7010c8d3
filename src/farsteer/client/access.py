"""Where the hub is and what opens it: found in arguments, the environment and the home directory, in this order."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from farsteer.core.errors import BadRequest, Unauthorized

DEFAULT_URL = "http://127.0.0.1:3006"


class HubFile(msgspec.Struct, frozen=True):
    """`hub.json` in the home directory while a hub runs on it."""

    url: str
    pid: int


class Login(msgspec.Struct, frozen=True):
    """`login.json` in the home directory: a hub elsewhere, and what opens it."""

    url: str
    token: str


def home_dir() -> Path:
    return Path(os.environ.get("FARSTEER_HOME") or "~/.farsteer").expanduser().absolute()


def hub_file(home: Path) -> Path:
    return home / "hub.json"


def token_file(home: Path) -> Path:
    return home / "token"


def login_file(home: Path) -> Path:
    return home / "login.json"


def known_login(home: Path) -> Login | None:
    """What `farsteer login` has remembered."""
    try:
        return msgspec.json.decode(login_file(home).read_bytes(), type=Login)
    except (OSError, msgspec.DecodeError):
        return None


def running_hub(home: Path) -> HubFile | None:
    """The hub that runs on this home, if its process still lives."""
    try:
        found = msgspec.json.decode(hub_file(home).read_bytes(), type=HubFile)
    except (OSError, msgspec.DecodeError):
        return None
    return found if _alive(found.pid) else None


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def find_url(url: str | None = None, *, allow_insecure: bool = False) -> str:
    """The hub's address: as given, `$FARSTEER_HUB`, the hub that runs on the home, the login's, or the default."""
    url = url or os.environ.get("FARSTEER_HUB")
    if url:
        return check_url(url, allow_insecure=allow_insecure).rstrip("/")
    running, login = running_hub(home_dir()), known_login(home_dir())
    return running.url if running else login.url if login else DEFAULT_URL


def find_token(token: str | None = None, url: str | None = None) -> str:
    """The access token: as given, `$CLI_API_TOKEN`, the login's if it is for `url`, or the token file of the home."""
    token = token or os.environ.get("CLI_API_TOKEN")
    if token:
        return token.strip()
    login = known_login(home_dir())
    if login is not None and login.url == url:
        return login.token
    path = token_file(home_dir())
    try:
        stored = path.read_text(encoding="utf-8-sig").strip()
    except FileNotFoundError:
        stored = ""
    except OSError as error:
        raise Unauthorized(f"cannot read the token file {path}: {error.strerror}") from error
    if not stored:
        raise Unauthorized(f"no access token: set CLI_API_TOKEN, or put the hub's token into {path}")
    return stored


def absolute(path: str | os.PathLike[str]) -> str:
    """A path as it is meant here: `~` and relative ones belong to this machine and this directory."""
    return os.path.abspath(os.path.expanduser(path))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_url(url: str, *, allow_insecure: bool = False) -> str:
    """Refuse what is no hub address, and a road on which everybody can read the token."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadRequest(f"not a hub address: {url!r}; it looks like {DEFAULT_URL}")
    if url.startswith("http:") and not is_loopback(url):
        allowed = allow_insecure or os.environ.get("FARSTEER_ALLOW_INSECURE") == "1"
        if not allowed:
            raise BadRequest(
                f"{url} carries the token in clear: use https, or set FARSTEER_ALLOW_INSECURE=1 on a trusted network"
            )
    return url
