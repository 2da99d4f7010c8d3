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


@dataclass(frozen=True)
class Pin:
    """An npm package at an exact version. `{platform}` in `package` and `program` stands for this platform."""

    name: str
    version: str
    package: str
    program: str
    """The path of the program below node_modules."""
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
    def program_here(self) -> str:
        return self.program.format(platform=here())


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
ACPX = Pin(name="acpx", version="0.19.1", package="acpx", program="acpx/dist/cli.js")
"""A client of editors' protocol for the command line, made by others; the node of `make setup` runs it."""
PINS = (DROID, DROID_OLD, ACPX)
