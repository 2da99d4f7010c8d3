"""An agent built on the official Python SDK that replays a history.

Usage: `python -m bench.acp.peer FILE`, where each line of the file is a text as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema


class Replayer:
    """Implements only the methods that the benchmark calls, as the examples of the SDK do."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **extra: Any) -> schema.InitializeResponse:
        capabilities = schema.AgentCapabilities(load_session=True)
        return schema.InitializeResponse(protocol_version=protocol_version, agent_capabilities=capabilities)

    async def load_session(self, cwd: str, session_id: str, **extra: Any) -> schema.LoadSessionResponse:
        for number, text in enumerate(self._texts, 1):
            chunk = schema.AgentMessageChunk(
                session_update="agent_message_chunk", message_id=f"m1.{number}", content=acp.text_block(text)
            )
            await self._client.session_update(session_id=session_id, update=chunk)
        return schema.LoadSessionResponse()


if __name__ == "__main__":
    stored = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    asyncio.run(acp.run_agent(cast("acp.Agent", Replayer(stored))))
