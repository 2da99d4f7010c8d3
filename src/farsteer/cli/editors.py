"""What to tell an editor so that it finds us."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

EDITORS = ("zed", "jetbrains", "nvim", "toad")


def configuration(editor: str, options: Sequence[str]) -> str:
    """What to put where, to be pasted."""
    arguments = ["acp", *options]
    server: dict[str, Any] = {"command": "farsteer", "args": arguments, "env": {}}
    match editor:
        case "zed":
            body = {"agent_servers": {"Farsteer": {"type": "custom", **server}}}
            return f"// settings.json (cmd-, in Zed)\n{json.dumps(body, indent=2)}"
        case "jetbrains":
            return (
                f"// ~/.jetbrains/acp.json\n{json.dumps({'agent_servers': {'Farsteer': server}}, indent=2)}"
            )
        case "nvim":
            return _NVIM.format(command=", ".join(f'"{part}"' for part in ("farsteer", *arguments)))
        case _:
            return f"toad acp {json.dumps(' '.join(('farsteer', *arguments)))} ."


_NVIM = """\
-- codecompanion.nvim
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      farsteer = function()
        return require("codecompanion.adapters.acp").extend("gemini_cli", {{
          name = "farsteer",
          formatted_name = "Farsteer",
          commands = {{ default = {{ {command} }} }},
        }})
      end,
    }},
  }},
  strategies = {{ chat = {{ adapter = "farsteer" }} }},
}})"""
