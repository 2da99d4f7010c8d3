"""A small aider for the real worker: the classes that the worker uses, with a model that follows commands.

`install` makes an environment of it, in which the adapter finds a program `aider` and its Python. What a turn does is
said by the first words of the message: `packages/aider/script.py` lists them.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

VERSION = "0.86.2"
_PACKAGES = Path(__file__).with_name("packages")
_BOOTSTRAP = Path(__file__).with_name("bootstrap.py")


def install(folder: Path, version: str = VERSION) -> str:
    """Make the environment and return the path of its program."""
    environment = folder / "aider-environment"
    installed = environment / "lib" / "python3.11" / "site-packages"
    package = installed / f"aider_chat-{version}.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: aider-chat\nVersion: {version}\n")
    python, program = environment / "bin" / "python", environment / "bin" / "aider"
    python.parent.mkdir()
    command = [sys.executable, "-I", str(_BOOTSTRAP), str(_PACKAGES), str(installed)]
    python.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    program.write_text(f"#!{python}\nimport aider\n")
    for path in (python, program):
        path.chmod(0o755)
    return str(program)
