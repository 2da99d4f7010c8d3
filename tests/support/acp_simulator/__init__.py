"""A program that speaks the Agent Client Protocol as an agent, and shows faults on request.

It follows the commands in the user's text and has the faults that its command line names:
`python -m tests.support.acp_simulator --help` lists both. `install` makes an executable of it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from farsteer.agents.catalog.definition import AgentDefinition, Feature, NativeModeNames

_ROOT = Path(__file__).parents[3]

DEFINITION = AgentDefinition(
    title="Simulator", command=("acp-simulator",), can=tuple(Feature),
    modes=NativeModeNames(ask="ask", plan="plan", yolo="yolo"),
)  # fmt: skip


def install(folder: Path, *faults: str) -> str:
    """Write an executable that runs the simulator with these faults, and return its path."""
    path = folder / "acp-simulator"
    command = [sys.executable, "-m", __name__, *faults]
    path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(_ROOT))} exec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)
    return str(path)


def definition(**changes: Any) -> AgentDefinition:
    return replace(DEFINITION, **changes)
