"""The simulator's threads, as files with the names of Codex's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec


class Thread(msgspec.Struct):
    id: str
    cwd: str
    turns: list[dict[str, Any]] = []
    settings: dict[str, Any] = {}
    """Approval policy, sandbox, model and effort."""

    def describe(self) -> dict[str, Any]:
        texts = [
            part["text"]
            for turn in self.turns
            for item in turn["items"]
            if item["type"] == "userMessage"
            for part in item["content"]
        ]
        return {
            "id": self.id, "cwd": self.cwd, "preview": texts[0] if texts else "", "ephemeral": False, "name": None,
            "updatedAt": 0, "turns": [], "historyMode": "paginated",
        }  # fmt: skip


def save(thread: Thread) -> None:
    path = _find(thread.id) or _folder() / f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S')}-{thread.id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{thread.id}.new")
    written.write_bytes(msgspec.json.encode(thread))
    written.replace(path)


def load(thread_id: str) -> Thread | None:
    path = _find(thread_id)
    return None if path is None else msgspec.json.decode(path.read_bytes(), type=Thread)


def delete(thread_id: str) -> bool:
    path = _find(thread_id)
    if path is not None:
        path.unlink()
    return path is not None


def newest_first() -> list[Thread]:
    paths = sorted(_folder().glob("rollout-*.jsonl"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return [msgspec.convert(json.loads(path.read_bytes()), Thread) for path in paths]


def _folder() -> Path:
    return Path(os.environ["HOME"]) / ".codex" / "sessions" / "2026" / "11" / "18"


def _find(thread_id: str) -> Path | None:
    return next(_folder().glob(f"rollout-*-{thread_id}.jsonl"), None)
