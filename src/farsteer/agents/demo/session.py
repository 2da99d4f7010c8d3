"""What the agent knows while it runs: where it works, its modes, its conversation, and the ids it gives."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from farsteer.agents.demo.copies import Copies, folder_of
from farsteer.agents.demo.history import History
from farsteer.agents.demo.out import Out
from farsteer.agents.demo.shell import Shell
from farsteer.core.modes import PermissionMode, ToolKind, ToolPermission, tool_permission

MODELS = ("demo-1", "demo-1-mini")
CONTEXT_SIZE = 200_000
_AGAIN_SECONDS = 0.05


class Session:
    def __init__(self, out: Out, history: History, directory: str, opening: dict[str, Any]) -> None:
        self.out = out
        self.history = history
        self.directory = directory
        self.id: str = opening["session"]
        self.mode = PermissionMode(opening.get("mode", PermissionMode.DEFAULT))
        self.model: str = opening.get("model") or MODELS[0]
        self.effort: str = opening.get("effort") or "medium"
        self.servers: list[dict[str, Any]] = opening.get("mcpServers") or []
        self.directories: list[str] = opening.get("directories") or []
        self.shell = Shell(directory)
        self.leaves_at_end = True
        """It exits when its input ends; only a misbehaviour changes that."""
        self.acknowledges = True
        """It says so when it has heard an interrupt; only a misbehaviour changes that."""
        self.copies = Copies(folder_of(opening["state"], self.id), directory, history)
        self._life = os.urandom(4).hex()
        self._ids = 0
        self._orders: list[Callable[[], object]] = []

    def new_id(self, kind: str) -> str:
        """Unique in the conversation, also in one that was forked or adopted, where launches are counted anew."""
        self._ids += 1
        return f"{kind}{self._life}.{self._ids}"

    def tool_permission(self, tool: str, kind: ToolKind) -> ToolPermission:
        found = tool_permission(self.mode, kind)
        if found is ToolPermission.ASK and tool in self.history.allowed:
            return ToolPermission.ALLOW
        return found

    def configure(self, change: dict[str, Any]) -> None:
        if change.get("mode"):
            self.mode = PermissionMode(change["mode"])
        self.model = change.get("model") or self.model
        self.effort = change.get("effort") or self.effort

    def switch_mode(self, mode: PermissionMode) -> None:
        """The agent's own change of mode, told to the client."""
        if mode is not self.mode:
            self.mode = mode
            self.out.send("mode", mode=mode.value)

    def in_reader(self, act: Callable[[], object]) -> None:
        """Have `act` done by the main thread, which alone may change signals; returns when it is done."""
        done = threading.Event()
        self._orders.append(lambda: (act(), done.set()))
        while True:
            os.kill(os.getpid(), signal.SIGUSR1)
            # A signal that comes in the moment before the main thread begins to read is seen when it has read.
            if done.wait(_AGAIN_SECONDS):
                return

    def take_orders(self) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: self._take_order())

    def _take_order(self) -> None:
        if self._orders:
            self._orders.pop()()

    def tokens(self) -> int:
        """How full the context is: a word is a token."""
        return sum(len(record["text"].split()) for record in self.history.messages)
