"""The adapter of the demo agent, including its stored conversations."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress

from farsteer import __version__
from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink
from farsteer.agents.demo.copies import copies_path
from farsteer.agents.demo.history import (
    HistoryError,
    Record,
    has_messages,
    history_path,
    load_records,
    read_conversation,
)
from farsteer.agents.demo.launch import DemoLaunch
from farsteer.agents.demo.session import MODELS
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, AgentThought, SessionEvent, UserMessage
from farsteer.core.ids import check_id, is_uuid
from farsteer.core.modes import MODEL_MODES
from farsteer.core.session import StoredConversation

ARGV = (sys.executable, "-I", "-m", "farsteer.agents.demo.agent")
"""Isolated mode: neither the environment nor the session's directory can change what is imported."""
_TITLE_CHARS = 60
_HEAD_BYTES = 1024 * 1024
"""How much of each file is read for a list. The messages of a longer file are not counted."""


class DemoAdapter(Adapter):
    name = "demo"
    title = "Demo agent"
    capabilities = Capabilities(
        caller_chosen_id=True, resume=True, rewind=True, fork=True, steer=True, live_model=True, live_mode=True,
        live_effort=True, file_restore=True, approvals=True, questions=True, plans=True, images=True, usage=True,
        import_history=True, mcp_servers=True, additional_directories=True, options=("demo",),
        model_modes=MODEL_MODES,
    )  # fmt: skip
    models = MODELS

    async def detect(self) -> AgentInfo:
        return AgentInfo(
            name=self.name, title=self.title, available=True, version=__version__, models=self.models,
            capabilities=self.capabilities,
        )  # fmt: skip

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        for native_id in (plan.decision.native_id, plan.fork_of):
            if native_id is not None:
                check_id(native_id, "session")
        return await DemoLaunch.start(ARGV, plan, sink)

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return is_uuid(native_id) and has_messages(state_dir, native_id)

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        return await asyncio.to_thread(_list_conversations, state_dir, directory, limit)

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        check_id(native_id, "conversation")
        return await asyncio.to_thread(_read_history, state_dir, native_id)

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        check_id(native_id, "conversation")
        await asyncio.to_thread(_delete_conversation, state_dir, native_id)


def _list_conversations(folder: str, directory: str | None, limit: int) -> list[StoredConversation]:
    """Return stored conversations, newest first. Files that are not conversations are left out."""
    real_directory = None if directory is None else os.path.realpath(directory)
    found: list[StoredConversation] = []
    for native_id in _stored_ids(folder):
        if len(found) >= limit:
            break
        with suppress(HistoryError, OSError):
            place, records = load_records(history_path(folder, native_id), _HEAD_BYTES)
            if real_directory is None or (place and os.path.realpath(place) == real_directory):
                found.append(_describe(folder, native_id, place, records, _HEAD_BYTES))
    return found


def _read_history(folder: str, native_id: str) -> tuple[StoredConversation, list[SessionEvent]]:
    try:
        directory, records = read_conversation(folder, native_id)
        return _describe(folder, native_id, directory, records), [*_events(records)]
    except (HistoryError, OSError) as error:
        raise AgentError(str(error), code=ErrorCode.CONVERSATION_MISSING) from None


def _delete_conversation(folder: str, native_id: str) -> None:
    path = history_path(folder, native_id)
    for name in (path, f"{path}.new"):
        with suppress(FileNotFoundError):
            os.unlink(name)
    with suppress(FileNotFoundError):
        shutil.rmtree(copies_path(folder, native_id))


def _stored_ids(folder: str) -> list[str]:
    """Return the ids of the files named `<uuid>.jsonl`, the newest file first."""
    found: list[tuple[int, str]] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            name, dot, suffix = entry.name.partition(".")
            if (dot, suffix) == (".", "jsonl") and is_uuid(name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    found.append((entry.stat().st_mtime_ns, name))
    return [name for _, name in sorted(found, reverse=True)]


def _describe(
    folder: str, native_id: str, directory: str, records: list[Record], limit: int | None = None
) -> StoredConversation:
    status = os.stat(history_path(folder, native_id))
    sent = [record["text"] for record in records if record["role"] == "user"]
    if not sent:
        raise HistoryError("not_found", f"no conversation {native_id}")
    messages = sum(record["role"] in ("user", "agent") for record in records)
    return StoredConversation(
        native_id=native_id, agent="demo", directory=directory, updated_at=status.st_mtime_ns // 1_000_000,
        title=_title(sent[0]), messages=messages if limit is None or status.st_size <= limit else None,
    )  # fmt: skip


def _title(text: str) -> str | None:
    line = " ".join(text.strip().split("\n", 1)[0].split())
    return (line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…") or None


def _events(records: list[Record]) -> Iterator[SessionEvent]:
    for record in records:
        role, partial = record["role"], record.get("partial") is True
        if role == "user":
            yield UserMessage(item_id=record["anchor"], text=record["text"], anchor=record["anchor"])
        elif role in ("agent", "thought"):
            kind = AgentMessage if role == "agent" else AgentThought
            anchor = record["anchor"]
            yield kind(message_id=anchor, text=record["text"], anchor=anchor, partial=partial)
