"""Conversations of the real Codex are read whole, however long they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farsteer.agents.conformance.harness import Harness
from farsteer.core.events import AgentMessage, UserMessage

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"
TURNS, CHARS = 12, 5 * 1024 * 1024


def write_rollout(codex: Path, directory: Path) -> None:
    """Write a conversation in the format of Codex 0.40 whose pages are longer than a line may be."""
    path = codex / "sessions/2025/09/01" / f"rollout-2025-09-01T10-00-00-{THREAD}.jsonl"
    path.parent.mkdir(parents=True)
    meta = {
        "id": THREAD, "timestamp": "2025-09-01T10:00:00.000Z", "cwd": str(directory), "originator": "codex_cli_rs",
        "cli_version": "0.40.0", "instructions": None,
    }  # fmt: skip
    with path.open("w") as file:

        def add(kind: str, payload: object) -> None:
            line = {"timestamp": "2025-09-01T10:00:00.000Z", "type": kind, "payload": payload}
            file.write(json.dumps(line) + "\n")

        add("session_meta", meta)
        for number in range(TURNS):
            add("event_msg", {"type": "user_message", "message": f"question {number}", "kind": "plain"})
            add("event_msg", {"type": "agent_message", "message": f"{number}:" + "x" * CHARS})


async def test_a_conversation_of_60_megabytes_is_read_in_pages_that_fit(
    harness: Harness, codex: Path
) -> None:
    write_rollout(codex, harness.directory)
    conversation, events = await harness.adapter.read_history(THREAD, harness.state_dir)
    asked = [event.text for event in events if isinstance(event, UserMessage)]
    answered = [event.text for event in events if isinstance(event, AgentMessage)]
    assert asked == [f"question {number}" for number in range(TURNS)]
    assert [text.partition(":")[0] for text in answered] == [*map(str, range(TURNS))]
    assert {len(text) for text in answered} <= {CHARS + 2, CHARS + 3}
    assert conversation.messages == 2 * TURNS
