"""The versions of the CLIs that the tests run, and their npm packages."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field


def here() -> str:
    """Return this platform as npm packages name it, such as linux-x64."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower())
    return f"{sys.platform}-{machine or platform.machine().lower()}"


def triple() -> str:
    """Return this platform as Rust programs name it, such as x86_64-unknown-linux-musl."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    return f"{machine}-apple-darwin" if sys.platform == "darwin" else f"{machine}-unknown-linux-musl"


@dataclass(frozen=True)
class Pin:
    """An npm package at an exact version.

    `{platform}` and `{triple}` in `package`, `program` and `release` stand for this platform.
    """

    name: str
    version: str
    package: str
    program: str
    """The path of the program below node_modules."""
    release: str = "{version}"
    """The version as npm knows it."""
    integrity: Mapping[str, str] = field(default_factory=dict)
    """What npm must have got, for the platforms where it is known."""
    scripts: bool = False
    """Whether the package needs its install scripts."""
    packed: bool = False
    """Whether the package has the program compressed, as PROGRAM.br, which its install script would unpack."""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def package_here(self) -> str:
        return self.package.format(platform=here())

    @property
    def release_here(self) -> str:
        return self.release.format(platform=here(), version=self.version)

    @property
    def program_here(self) -> str:
        return self.program.format(platform=here(), triple=triple())


def _droid(version: str, **integrity: str) -> Pin:
    """Return the package of the program. The package `droid` only selects one of these in an install script."""
    return Pin(
        name="droid",
        version=version,
        package="@factory/cli-{platform}",
        program="@factory/cli-{platform}/bin/droid",
        integrity={name.replace("_", "-"): value for name, value in integrity.items()},
    )


DROID = _droid(
    "0.215.0",
    linux_x64="sha512-e2dUrVvT3mSKrvJTpYtJk6fM6tf51nXh+bjS5rbC9FaZhWNCTV7q3UpZpopzsGYPSJL/dBEG+qhevzGPWL0ZjQ==",
)
DROID_OLD = _droid(
    "0.99.0",
    linux_x64="sha512-16fmqhBS2ijMVC2DNuVkmXLToRhAmZad7Lz8pQYb8ECW0uQthX5hM91grNoQ39MkZVDoYOmmrbTL7y6q3H3uJA==",
)
CLAUDE = Pin(
    name="claude",
    version="2.1.326",
    package="@anthropic-ai/claude-code-{platform}",
    program="@anthropic-ai/claude-code-{platform}/claude",
    integrity={
        "linux-x64": "sha512-RvNuaeMGfPGUyUGttVvhHgVUZ3B2L+Pgf336ImZLsPP2UQHYblewi47CPFLObqz+K6D++PLP1eAsDBLYko3w+g=="
    },
)
CODEX = Pin(
    name="codex",
    version="0.169.0",
    release="{version}-{platform}",
    package="@openai/codex",
    program="@openai/codex/vendor/{triple}/bin/codex",
    integrity={
        "linux-x64": "sha512-o05NyAOCDygSPRo1yinzxvkRSdmsZyBD9E7mbpmjRanSfM8lypqWtQgEo4XfNkwhuCR2aFu8mlGOsQGFXVbVww=="
    },
)
"""Each platform's program is a version of the package."""
ACPX = Pin(name="acpx", version="0.19.1", package="acpx", program="acpx/dist/cli.js")
"""A client of editors' protocol for the command line, made by others; the node of `make setup` runs it."""
GEMINI = Pin(
    name="gemini",
    version="0.61.0",
    package="@google/gemini-cli",
    program=".bin/gemini",
    integrity={
        "linux-x64": "sha512-dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ=="
    },
)
OPENCODE = Pin(
    name="opencode",
    version="1.18.33",
    package="opencode-{platform}",
    program="opencode-{platform}/bin/opencode",
    integrity={
        "linux-x64": "sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw=="
    },
)
"""The package `opencode-ai` only selects one of these in an install script."""
GROK = Pin(
    name="grok",
    version="1.0.41",
    package="@xai-official/grok-{platform}",
    program="@xai-official/grok-{platform}/bin/grok",
    packed=True,
    integrity={
        "linux-x64": "sha512-5KS0AMeGYQh3++0EEZPKVjAcalFQma8K5SKMhBu1k1OVNpA/lO+fRgecS1/kOsLaGaPDPfQm611Z+a5J9dLfAg=="
    },
)
"""The install script of `@xai-official/grok` unpacks it into the user's home, which is not ours to write to."""
KIMI = Pin(
    name="kimi",
    version="2.1.0",
    package="@moonshot-ai/kimi-code",
    program=".bin/kimi",
    integrity={
        "linux-x64": "sha512-c9rY0DS0xNOraEgUFJ5Cexz6+S3R+PczIwCVCI4eP93xv1xpIbyFLe6wyQl29VR9UMafmfQG6+dIyJcCLEAoBQ=="
    },
)
PINS = (DROID, DROID_OLD, CLAUDE, CODEX, ACPX, GEMINI, OPENCODE, GROK, KIMI)
