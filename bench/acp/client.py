"""A minimal ACP client, the same for every agent: it splits lines, counts updates and decodes only responses."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench import measure

SECONDS = 120.0
_CHUNK_BYTES = 1024 * 1024
_UPDATE_METHOD = b'"session/update"'


class Client:
    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            argv, env=dict(environment), cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._id = 0
        self._rest = b""
        self.updates = 0
        self.bytes = 0

    @property
    def cpu(self) -> float:
        return measure.cpu_seconds([self._process.pid])

    def call(
        self, method: str, params: dict[str, Any], on_update: Callable[[bytes], None] | None = None
    ) -> Any:
        """Send a request and return its result. Updates before it are counted and passed to `on_update`."""
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        marker = b'"id":%d,' % self._id
        while True:
            for line in self._read_lines():
                if _UPDATE_METHOD in line:
                    self.updates += 1
                    self.bytes += len(line)
                    if on_update is not None:
                        on_update(line)
                elif marker in line.replace(b": ", b":"):
                    answer = json.loads(line)
                    if "error" in answer:
                        raise RuntimeError(f"{method}: {answer['error']}")
                    return answer["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _read_lines(self) -> list[bytes]:
        assert self._process.stdout is not None
        chunk = os.read(self._process.stdout.fileno(), _CHUNK_BYTES)
        if not chunk:
            raise RuntimeError("the agent exited")
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
