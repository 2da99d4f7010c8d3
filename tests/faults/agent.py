"""The demo agent, which also records every message it has stored: `python -I tests/faults/agent.py LEDGER`

The ledger is only ever appended to. The agent's own conversation is not enough: a rewind cuts it and a fork copies it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from farsteer.agents.demo import agent
from farsteer.agents.demo.history import History


def main() -> None:
    ledger = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    original = History.add

    def add(self: History, record: dict[str, Any]) -> None:
        original(self, record)
        if record["role"] == "user":
            os.write(ledger, json.dumps(record["text"]).encode() + b"\n")

    History.add = add
    agent.main()


if __name__ == "__main__":
    main()
