"""The state of the agent process: its output, its shell, and the settings and conversation of its one session."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from farsteer.agents.demo.copies import FileCopies, copies_path
from farsteer.agents.demo.history import History
from farsteer.core.modes import PermissionMode, ToolKind, ToolPermission, tool_permission

if TYPE_CHECKING:
    import subprocess

MODELS = ("demo-1", "demo-1-mini")
CONTEXT_SIZE = 200_000
_STDOUT = 1
_SHELL_CHUNK = 64 * 1024
_RESEND_SECONDS = 0.05
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class LineWriter:
    """Writes numbered JSON lines to stdout. Thread-safe; each line is written whole."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0

    def send(self, type: str, **fields: Any) -> None:
        """Write one line. Fields that are None are left out."""
        with self._lock:
            self._write(self._line(type, fields))

    def encode(self, type: str, **fields: Any) -> bytes:
        """Return the next line for a later `write`. Nothing else may be sent in between."""
        with self._lock:
            return self._line(type, fields)

    def send_repeatedly(self, type: str, times: int, **fields: Any) -> None:
        """Write the same line, with the same number, several times, as a faulty agent does after a reconnect."""
        with self._lock:
            self._write(self._line(type, fields) * times)

    def send_many(self, template: bytes, count: int) -> None:
        """Write `count` lines at once. The three `%d` of `template` become the number of the line."""
        with self._lock:
            first = self._number + 1
            self._number += count
            self._write(b"".join([template % (n, n, n) for n in range(first, first + count)]))

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        with self._lock:
            self._write(data)

    def _line(self, type: str, fields: dict[str, Any]) -> bytes:
        self._number += 1
        known = {name: value for name, value in fields.items() if value is not None}
        body = {"type": type, "n": self._number, **known}
        return _encode(body).encode(errors="replace") + b"\n"

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(_STDOUT, left) :]
        except BrokenPipeError:
            # The client is gone.
            os._exit(0)


class Shell:
    """Runs shell commands, one at a time, in a process group that can be killed at any moment."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def run(self, command: str) -> Iterator[str]:
        """Yield the output as it comes, until every process that could write to it is gone."""
        process = self._start(command)
        if process is None:
            return
        assert process.stdout is not None
        with process.stdout as output:
            while chunk := os.read(output.fileno(), _SHELL_CHUNK):
                yield chunk.decode(errors="replace")

    def wait(self) -> int:
        """Return the exit code of the command whose output has ended."""
        process = self._process
        assert process is not None
        code = process.wait()
        with self._lock:
            self._process = None
        return code

    def kill(self, *, close: bool = False) -> None:
        """Kill the running command and everything it started. With `close`, refuse later commands."""
        with self._lock:
            self._closed = self._closed or close
            if self._process is not None and self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _start(self, command: str) -> subprocess.Popen[bytes] | None:
        import subprocess

        with self._lock:
            if self._closed:
                return None
            # Its own process group, so that an interrupt kills the command and not the agent. It stays in the agent's
            # session, so that it is found when the agent is killed.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
                bufsize=0,
            )
            return self._process


class DemoSession:
    """The settings, the conversation and the resources of the running agent."""

    def __init__(self, writer: LineWriter, history: History, directory: str, request: dict[str, Any]) -> None:
        """`request` is the `open` request of the client."""
        self.writer = writer
        self.history = history
        self.directory = directory
        self.id: str = request["session"]
        self.mode = PermissionMode(request.get("mode", PermissionMode.DEFAULT))
        self.model: str = request.get("model") or MODELS[0]
        self.effort: str = request.get("effort") or "medium"
        self.mcp_servers: list[dict[str, Any]] = request.get("mcpServers") or []
        self.additional_directories: list[str] = request.get("directories") or []
        self.shell = Shell(directory)
        self.exits_at_eof = True
        """Whether it exits when its input ends. Only a fault sets it to False."""
        self.acknowledges_interrupt = True
        """Whether it replies to an interrupt. Only a fault sets it to False."""
        self.confirms_messages = True
        """Whether it replies to a message that it has stored. Only a fault sets it to False."""
        self.insists_on_mode = False
        """Whether it goes back to its own permission mode when it is given another. Only a fault sets it to True."""
        self.copies = FileCopies(copies_path(request["state"], self.id), directory, history)
        self._id_prefix = os.urandom(4).hex()
        self._last_id = 0
        self._main_thread_calls: list[Callable[[], object]] = []

    def new_id(self, kind: str) -> str:
        """Return an id that is unique in the conversation.

        The random prefix keeps it unique in a forked or adopted conversation, where generations start at 1 again.
        """
        self._last_id += 1
        return f"{kind}{self._id_prefix}.{self._last_id}"

    def tool_permission(self, tool: str, kind: ToolKind) -> ToolPermission:
        found = tool_permission(self.mode, kind)
        if found is ToolPermission.ASK and tool in self.history.allowed_tools:
            return ToolPermission.ALLOW
        return found

    def configure(self, request: dict[str, Any]) -> None:
        """Apply a `set` request of the client."""
        if request.get("mode"):
            loosened, self.mode = self.mode, PermissionMode(request["mode"])
            if self.insists_on_mode:
                self.switch_mode(loosened)
        self.model = request.get("model") or self.model
        self.effort = request.get("effort") or self.effort

    def switch_mode(self, mode: PermissionMode) -> None:
        """Change the mode on the agent's own initiative and report it to the client."""
        if mode is not self.mode:
            self.mode = mode
            self.writer.send("mode", mode=mode.value)

    def run_in_main_thread(self, call: Callable[[], object]) -> None:
        """Run `call` in the main thread, which alone may change signal handlers. Returns when it is done."""
        done = threading.Event()
        self._main_thread_calls.append(lambda: (call(), done.set()))
        while True:
            os.kill(os.getpid(), signal.SIGUSR1)
            # A signal that arrives just before the main thread blocks in a read is handled only after the read.
            if done.wait(_RESEND_SECONDS):
                return

    def install_signal_handler(self) -> None:
        """Make `run_in_main_thread` work. Must be called in the main thread."""
        signal.signal(signal.SIGUSR1, lambda *_: self._run_main_thread_call())

    def _run_main_thread_call(self) -> None:
        if self._main_thread_calls:
            self._main_thread_calls.pop()()

    def count_tokens(self) -> int:
        """Return the size of the context. A word counts as a token."""
        return sum(len(record["text"].split()) for record in self.history.messages)
