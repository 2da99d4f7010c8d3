"""A small MCP server on stdin and stdout with one tool."""

from __future__ import annotations

import json
import sys
from typing import Any

SHOUT = {
    "name": "shout",
    "description": "Say it louder",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            }
        case "tools/list":
            return {"tools": [SHOUT]}
        case "tools/call":
            return {"content": [{"type": "text", "text": params["arguments"]["text"].upper()}]}
        case _:
            return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
