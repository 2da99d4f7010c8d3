"""What to tell an editor so that it finds us."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PLACES = {
    "zed": "Zed's settings.json",
    "jetbrains": "~/.jetbrains/acp.json",
    "nvim": "your init.lua, for codecompanion.nvim",
    "toad": "a terminal",
}


def configuration(editor: str, options: Sequence[str]) -> str:
    """What to put there, to be pasted or redirected."""
    program, *rest = _program()
    arguments = [*rest, "acp", *options]
    server: dict[str, Any] = {"command": program, "args": arguments, "env": {}}
    match editor:
        case "zed":
            return json.dumps({"agent_servers": {"Farsteer": {"type": "custom", **server}}}, indent=2)
        case "jetbrains":
            return json.dumps({"agent_servers": {"Farsteer": server}}, indent=2)
        case "nvim":
            return _NVIM.format(command=", ".join(json.dumps(part) for part in (program, *arguments)))
        case _:
            return f"toad acp {shlex.quote(shlex.join((program, *arguments)))} ."


def _program() -> tuple[str, ...]:
    """How to start us from anywhere: an editor begun from a desktop has another PATH than a terminal."""
    for name in (sys.argv[0], "farsteer"):
        found = shutil.which(name) if Path(name).name == "farsteer" else None
        if found is not None:
            return (str(Path(found).absolute()),)
    return (sys.executable, "-m", "farsteer")


_NVIM = """\
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      farsteer = function()
        return require("codecompanion.adapters").extend("gemini_cli", {{
          name = "farsteer",
          formatted_name = "Farsteer",
          commands = {{ default = {{ {command} }} }},
          defaults = {{ auth_method = "farsteer-login" }},
        }})
      end,
    }},
  }},
  interactions = {{ chat = {{ adapter = "farsteer" }} }},
}})"""
