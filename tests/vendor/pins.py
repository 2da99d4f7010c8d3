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
PINS = (DROID, DROID_OLD, CLAUDE, CODEX, ACPX)
