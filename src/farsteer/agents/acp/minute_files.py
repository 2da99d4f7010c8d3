"""The files of Gemini's conversations, which are named by the minute.

Gemini names the file of a conversation by the minute of its creation. Loading the conversation creates another file of
its own, with only headers, named by the present minute, and a later load deletes conversations that have such a file:
with all their files. In the same minute both names are the same, and the file is overwritten at once. So before a load,
files with only headers are put aside, and the conversation's own file gets the name of another minute.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from farsteer.agents.process.environment import RUN_AS_VARIABLE
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.ids import is_uuid

_NAME = re.compile(r"session-\d{4}-\d\d-\d\dT\d\d-\d\d-([0-9a-f]{8})\.jsonl")
_MINUTES_BACK = range(2, 120)


def keep_from_loss(
    environment: Mapping[str, str], native_id: str, aside: str, now: datetime | None = None
) -> None:
    """Prepare the files of a conversation for a load. Raises AgentError if they are not ours to change.

    Args:
        environment: The environment of the agent.
        aside: The directory for files that Gemini would take for empty conversations.
    """
    if RUN_AS_VARIABLE in environment:
        raise AgentError(
            "a conversation of Gemini cannot be resumed where agents run as another user: loading may destroy it",
            code=ErrorCode.AGENT_START_FAILED,
        )
    home = environment.get("HOME")
    if not home or not is_uuid(native_id):
        return
    present = now or datetime.now(UTC)
    for folder in (Path(home) / ".gemini" / "tmp").glob("*/chats"):
        _prepare(folder, native_id[:8], Path(aside), present)


def _prepare(folder: Path, prefix: str, aside: Path, now: datetime) -> None:
    found = [path for path in folder.glob(f"session-*-{prefix}.jsonl") if _NAME.fullmatch(path.name)]
    if not found:
        return
    largest = max(found, key=lambda path: path.stat().st_size)
    for path in found:
        if path != largest:
            shutil.move(path, aside / f"{path.name}.{os.urandom(4).hex()}")
    for minutes in _MINUTES_BACK:
        name = f"session-{now - timedelta(minutes=minutes):%Y-%m-%dT%H-%M}-{prefix}.jsonl"
        if not (folder / name).exists():
            largest.rename(folder / name)
            return
