"""An agent that answers prompts with as many updates as they ask for. Written to cost little itself."""

from __future__ import annotations

import json
import sys

from bench import wire

SESSION = "s1"


def main() -> None:
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, result = message.get("method"), {}
        if "id" not in message or method is None:
            continue
        if method == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
        elif method == "session/new":
            result = {"sessionId": SESSION}
        elif method == "session/prompt":
            count = int(message["params"]["prompt"][0]["text"])
            out.write(b"".join(update(number) for number in range(count)))
            result = {"stopReason": "end_turn"}
        out.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
        out.flush()


def update(number: int) -> bytes:
    content = {"type": "text", "text": wire.text(number)}
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": content}
    params = {"sessionId": SESSION, "update": chunk}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"


if __name__ == "__main__":
    main()
