"""The aider of this machine: its program, the Python of its environment, its version, and its keys."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from farsteer.agents.process.program import AgentProgram

ENVIRONMENT_NAMES = (
    "AIDER_MODEL", "OPENAI_*", "ANTHROPIC_*", "GEMINI_*", "GOOGLE_*", "VERTEXAI_*", "DEEPSEEK_*", "OPENROUTER_*",
    "XAI_*", "GROQ_*", "MISTRAL_*", "COHERE_*", "AZURE_*", "AWS_*", "OLLAMA_*", "LM_STUDIO_*", "FIREWORKS_*",
    "TOGETHERAI_*",
)  # fmt: skip
INSTALL_COMMAND = "uv tool install --python 3.12 aider-chat"
LOGIN = "set the API key of a provider, such as OPENAI_API_KEY, and a model with AIDER_MODEL"
TESTED_VERSION = "0.86.2"
OLDEST_VERSION = (0, 86)
PROGRAM = AgentProgram(
    title="aider", name="aider", variable="AIDER_EXECUTABLE", packages=(), places=(".local/bin/aider",),
    tested_version=TESTED_VERSION, environment_names=ENVIRONMENT_NAMES,
)  # fmt: skip

_HEAD_BYTES = 4096
_DIST_INFO = re.compile(r"aider_chat-(\d+\.\d+\.\d+[^-]*)\.dist-info")


class Installation(NamedTuple):
    path: str
    """The program `aider`."""
    python: str
    """The Python that runs it."""


def find(executable: str | None = None) -> Installation | None:
    """Return the installed aider, None if there is none or its Python cannot be found.

    The first line of the program names the Python. It is so for pip, pipx and `uv tool`.
    """
    path = PROGRAM.find(executable)
    python = None if path is None else _interpreter(Path(path))
    return None if path is None or python is None else Installation(path, python)


async def find_version(installation: Installation) -> str | None:
    """Return the version: the one of the installed package, or else what the program says."""
    environment = Path(installation.python).parent.parent
    for folder in environment.glob("lib/python3*/site-packages/aider_chat-*.dist-info"):
        if found := _DIST_INFO.fullmatch(folder.name):
            return found[1]
    return await PROGRAM.find_version(installation.path)


def unsupported(version: str) -> str | None:
    """Return why this version cannot be used, None if it can."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers >= OLDEST_VERSION:
        return None
    oldest = ".".join(map(str, OLDEST_VERSION))
    return f"aider {version} is too old: {oldest} or later is needed"


def has_key(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a key, or a model that may need none, is set."""
    return any(
        value and (name.endswith(("_API_KEY", "_API_BASE")) or name == "AIDER_MODEL")
        for name, value in environment.items()
    )


def _interpreter(program: Path) -> str | None:
    try:
        with program.open("rb") as file:
            lines = file.read(_HEAD_BYTES).split(b"\n", 2)
    except OSError:
        return None
    if not lines[0].startswith(b"#!"):
        return None
    words = _words(lines[0][2:])
    if words and os.path.basename(words[0]) == "sh" and len(lines) > 1:
        # A path that is too long for a first line: `'''exec' PYTHON "$0" "$@"` on the second one.
        words = _words(lines[1].removeprefix(b"'''exec'"))
    # An environment that can be moved names its Python by the place of the program.
    beside = os.path.join(os.path.dirname(os.path.realpath(program)), "python")
    for python in (words[0] if words else "", beside):
        if os.path.isabs(python) and os.access(python, os.X_OK):
            return python
    return None


def _words(line: bytes) -> list[str]:
    try:
        return shlex.split(line.decode())
    except (UnicodeDecodeError, ValueError):
        return []
