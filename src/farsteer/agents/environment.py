"""The environment an agent sees: what programs need to run, what its adapter names, no secret of ours, and its mark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

BASIC = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TERM", "COLORTERM", "TMPDIR", "TZ",
    "XDG_*",
    # An agent talks to its model: where a machine has its own certificates or a proxy, the agent needs them too.
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
OURS = ("CLI_API_TOKEN", "FARSTEER_*")
"""Never given to an agent, whoever names them: with these it could answer its own approvals."""

LAUNCH = "FARSTEER_LAUNCH"
"""Which launch a process belongs to. Whatever an agent starts inherits it, also what leaves its group and its session,
so this is how we find what an agent has left behind. It is no secret, and it is of no use to who reads it."""


class LaunchMark(NamedTuple):
    home: str
    """The runner's home, of which there is one runner at a time."""
    generation: int
    session: str

    def __str__(self) -> str:
        return f"{self.home}:{self.generation}:{self.session}"

    @classmethod
    def parse(cls, value: str) -> LaunchMark | None:
        parts = value.split(":", 2)
        if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit()):
            return None
        return cls(parts[0], int(parts[1]), parts[2])


def scrubbed(
    base: Mapping[str, str], allow: Iterable[str] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The part of `base` that an agent may see, then `extra` on top. Names in `allow` may end in `*`."""
    patterns = (*BASIC, *allow)
    chosen = {name: value for name, value in base.items() if _any(patterns, name)} | dict(extra or {})
    return {name: value for name, value in chosen.items() if not _any(OURS, name)}


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
