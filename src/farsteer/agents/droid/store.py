"""Where Droid keeps its conversations: one file of lines each, in a folder per working directory."""

from __future__ import annotations

from pathlib import Path

_MESSAGE = b'"type":"message"'


def has_messages(home: Path, session_id: str) -> bool:
    """Droid's store holds at least one message under this id, which is a plain name."""
    try:
        for path in (home / ".factory" / "sessions").glob(f"*/{session_id}.jsonl"):
            with path.open("rb") as lines:
                if any(_MESSAGE in line for line in lines):
                    return True
    except OSError:
        return False
    return False
