"""The lines between an adapter and its agent, recorded, and kept in files.

A file has one JSON object per line: `start` is the command line of a process, `in` is what the adapter wrote, `out` is
what the agent wrote, `exit` is how the process ended. Several processes follow each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest

from farsteer.agents.process import AgentProcess, OnExit, OnLines, ProcessExit
from farsteer.core.lines import Line, Oversized

Json = dict[str, Any]
Entry = Json
Exchange = list[Entry]
"""What one process was told and said."""


class Recording:
    """Every line of every process, in order."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def of(self, modules: Iterable[ModuleType], monkeypatch: pytest.MonkeyPatch) -> Self:
        """Record all processes that these modules start from now on."""
        process = _recording_process(self.exchanges)
        for module in modules:
            monkeypatch.setattr(module, "AgentProcess", process)
        return self


def _recording_process(exchanges: list[Exchange]) -> type[AgentProcess]:
    class Process(AgentProcess):
        entries: Exchange

        @classmethod
        def start(
            cls, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str], on_lines: OnLines,
            on_exit: OnExit, **more: Any,
        ) -> AgentProcess:  # fmt: skip
            entries: Exchange = [{"start": [Path(argv[0]).name, *argv[1:]]}]
            exchanges.append(entries)

            async def record_lines(batch: list[Line]) -> None:
                entries.extend({"out": _decoded(line)} for line in batch)
                await on_lines(batch)

            async def record_exit(ended: ProcessExit) -> None:
                entries.append({"exit": {"code": ended.code, "asked": ended.asked}})
                await on_exit(ended)

            process = super().start(
                argv, cwd=cwd, environment=environment, on_lines=record_lines, on_exit=record_exit, **more
            )
            assert isinstance(process, Process)
            process.entries = entries
            return process

        async def write(self, data: bytes, timeout: float = 10.0) -> None:
            self.entries.append({"in": json.loads(data)})
            await super().write(data, timeout)

    return Process


def _decoded(line: Line) -> Any:
    """Return the message of a line, its text if it has none."""
    data = line.head if isinstance(line, Oversized) else line
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


def write_entries(path: Path, exchanges: Iterable[Exchange]) -> None:
    lines = (json.dumps(entry, ensure_ascii=False) for exchange in exchanges for entry in exchange)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def read_entries(path: Path) -> list[Exchange]:
    exchanges: list[Exchange] = []
    for line in path.read_text().splitlines():
        entry: Entry = json.loads(line)
        if "start" in entry:
            exchanges.append([])
        exchanges[-1].append(entry)
    return exchanges
