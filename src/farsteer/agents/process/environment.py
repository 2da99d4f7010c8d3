"""The environment of an agent's process: the variables it may see, and the mark of its launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

BASIC_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TERM", "COLORTERM", "TMPDIR", "TZ",
    "XDG_*",
    # Needed to reach a model from a machine with its own certificates or a proxy.
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
"""Variables that every agent sees if they are set."""

PRIVATE_VARIABLES = ("CLI_API_TOKEN", "FARSTEER_*")
"""Variables that no agent ever sees, even if an adapter asks for them: with them it could answer its own approvals."""

LAUNCH_VARIABLE = "FARSTEER_LAUNCH"
"""The variable that holds the `LaunchMark` of an agent's process.

Every process that an agent starts inherits it, even one that leaves the agent's process group and session. The runner
uses it to find processes that an agent left behind. The mark is not a secret.
"""


RUN_AS_VARIABLE = "FARSTEER_RUN_AS"
"""The variable that names the user as whom `AgentProcess.start` runs the program. The program does not see it.

It is part of the environment, which every adapter passes on, so that no adapter can forget it.
"""


class LaunchMark(NamedTuple):
    """Identifies one launch: `<home>:<generation>:<session>`."""

    home: str
    """The id of the runner's home directory. At most one runner uses a home at a time."""
    generation: int
    session: str

    def __str__(self) -> str:
        return f"{self.home}:{self.generation}:{self.session}"

    @classmethod
    def parse(cls, value: str) -> LaunchMark | None:
        """Return the mark, or None if `value` is not one."""
        parts = value.split(":", 2)
        if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit()):
            return None
        return cls(parts[0], int(parts[1]), parts[2])


def is_private_variable(name: str) -> bool:
    """Return whether no agent may see this variable, whatever an adapter or the owner's settings name."""
    return _matches(name, PRIVATE_VARIABLES)


def scrub_environment(
    base: Mapping[str, str], allow: Iterable[str] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the part of `base` that an agent may see, updated with `extra`.

    Args:
        base: The environment of the runner.
        allow: Names to pass besides `BASIC_VARIABLES`. They may contain `*`.
        extra: Variables to set. `PRIVATE_VARIABLES` are removed from these too.
    """
    patterns = (*BASIC_VARIABLES, *allow)
    chosen = {name: value for name, value in base.items() if _matches(name, patterns)} | dict(extra or {})
    return {name: value for name, value in chosen.items() if not is_private_variable(name)}


def without_variables(
    base: Mapping[str, str], names: Iterable[str], keep: Iterable[str] = ()
) -> dict[str, str]:
    """Return the environment without the named variables, except those in `keep`. Names may contain `*`."""
    return {name: value for name, value in base.items() if not _matches(name, names) or _matches(name, keep)}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
