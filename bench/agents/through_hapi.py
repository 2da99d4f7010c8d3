"""The CLI driven through HAPI: its hub and its runner, used like its own page does (REST and SSE).

A session is created by `POST /api/machines/:id/spawn`, which takes no prompt, so that the first message is a second
request. It is repeated while HAPI refuses it, because HAPI may report a session before the session takes messages.

HAPI starts a wrapper process for each session; the wrapper starts Claude Code only with the first message. Codex starts
HAPI's MCP bridge, which is a second process of HAPI for each session. What HAPI passes to the CLI, such as this MCP
server and hooks, is its choice and stays as it is.

HAPI sends no text before a block is complete. It tells when its wrapper has taken a message, not when the agent has.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import psutil

from bench import wire
from bench.agents.cli import Cli
from bench.agents.driver import DEADLINE, Answered, Conversation, Driver, OnText, Stopwatch
from bench.child import Child, ChildFailed
from bench.peers.base import Unavailable
from bench.peers.hapi import Hapi

Event = dict[str, Any]
START_SECONDS = 30.0
RETRY = 0.01
END_SECONDS = 10.0


class HapiMachine(Hapi):
    """HAPI's hub and runner on a machine that has the CLI."""

    def __init__(self, cli: Cli, url: str) -> None:
        super().__init__()
        self.work = self.home / "work"
        self.work.mkdir()
        self._cli_environment = cli.environment(self.home, url)
        self._runner: Child | None = None

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            **self._cli_environment,
            "HAPI_API_URL": f"http://{wire.HOST}:{self.port}",
        }

    def start(self) -> float:
        taken = super().start()
        command = [str(self.command()[0]), "runner", "start-sync", "--workspace-root", str(self.home)]
        self._runner = Child(command, self.environment(), self.home, "runner started")
        self._runner.ready()
        return taken

    def servers(self) -> list[int]:
        assert self._runner is not None
        return [*super().servers(), self._runner.pid]

    def wrappers(self) -> list[psutil.Process]:
        """HAPI's processes of sessions, wrappers and bridges: descendants of the runner that run HAPI's own program."""
        assert self._runner is not None
        program = Path(self.command()[0]).resolve()
        return [process for process in _family(self._runner.pid) if _runs(process, program)]

    def stop(self) -> None:
        if self._runner is not None:
            self._runner.stop()
            self._runner = None
        super().stop()


class ThroughHapi(Driver):
    def __init__(self, cli: Cli, url: str) -> None:
        self._cli = cli
        self._machine = HapiMachine(cli, url)
        self._jwt = ""
        self._machine_id = ""

    def open(self) -> Conversation:
        asked = {"directory": str(self._machine.work), "agent": self._cli.name}
        known = {process.pid for process in self._machine.wrappers()}
        status, answer = self.post(f"/api/machines/{self._machine_id}/spawn", asked)
        if status != 200 or answer.get("type") != "success":
            raise Unavailable(f"HAPI does not start {self._cli.name}: {str(answer)[:300]}")
        wrappers = [process for process in self._machine.wrappers() if process.pid not in known]
        return HapiConversation(self, answer["sessionId"], wrappers)

    def memory(self) -> float:
        """The processes of sessions, without what they share.

        What a session costs the hub and the runner is left out, which favours HAPI: a garbage collection there is
        larger than that.
        """
        return sum(map(_own_memory, self._machine.wrappers()))

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return self._machine.request("POST", path, body, self._jwt)

    def until(self, condition: Callable[[Event], bool]) -> None:
        """Read events until one fulfils the condition."""
        deadline = time.monotonic() + DEADLINE
        for line in self._lines:
            if line.startswith(b"data:") and condition(json.loads(line[5:])):
                return
            if time.monotonic() > deadline:
                break
        raise Unavailable(f"HAPI did not end a turn of {self._cli.name} within {DEADLINE:g} s")

    def __enter__(self) -> Self:
        self._machine.__enter__()
        try:
            self._machine.start()
            self._jwt = self._machine.sign_in()
            _wait(lambda: self._machines() != [], "HAPI's runner did not come online")
            self._machine_id = self._machines()[0]["id"]
            self._socket = socket.create_connection((wire.HOST, self._machine.port), timeout=DEADLINE)
            self._socket.sendall(wire.get(self._machine.port, "/api/events?all=true", self._jwt))
            self._lines = self._socket.makefile("rb")
        except BaseException as error:
            self._machine.__exit__(None, None, None)
            if isinstance(error, ChildFailed):
                raise Unavailable(f"HAPI did not start: {error}") from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()
        self._machine.__exit__(kind, error, trace)

    def _machines(self) -> list[dict[str, Any]]:
        return self._machine.request("GET", "/api/machines", None, self._jwt)[1]["machines"]


class HapiConversation(Conversation):
    def __init__(self, driver: ThroughHapi, session: str, wrappers: list[psutil.Process]) -> None:
        self._driver = driver
        self._session = session
        self._wrappers = wrappers

    def ask(self, text: str, on_text: OnText = lambda _: None) -> Answered:
        watch = Stopwatch()
        self._send(text)

        def ended(event: Event) -> bool:
            if event.get("sessionId") != self._session:
                return False
            piece = text_of(event)
            watch.hear(piece)
            on_text(piece)
            return is_end(event)

        try:
            self._driver.until(ended)
            return watch.answered()
        except (RuntimeError, OSError) as error:
            raise Unavailable(f"HAPI did not answer: {error}") from error

    def close(self) -> None:
        """End the session and wait for its processes, so that their end disturbs no other measurement."""
        family = [process for wrapper in self._wrappers for process in (wrapper, *_family(wrapper.pid))]
        self._driver.post(f"/api/sessions/{self._session}/archive", {})
        for process in psutil.wait_procs(family, timeout=END_SECONDS)[1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _send(self, text: str) -> None:
        message = {"text": text, "localId": str(uuid4())}
        deadline = time.monotonic() + START_SECONDS
        while True:
            status, answer = self._driver.post(f"/api/sessions/{self._session}/messages", message)
            if status == 200:
                return
            if time.monotonic() > deadline:
                raise Unavailable(f"HAPI takes no message: {status} {str(answer)[:300]}")
            time.sleep(RETRY)


def text_of(event: Event) -> str:
    """Return the text of an agent, in both of the forms that HAPI stores: Claude Code's own lines, and Codex's."""
    data = _data(event)
    if data.get("type") == "assistant":
        blocks: list[dict[str, Any]] = data["message"]["content"]
        return "".join(block["text"] for block in blocks if block["type"] == "text")
    return data["message"] if data.get("type") == "message" and "message" in data else ""


def is_end(event: Event) -> bool:
    """Return whether the agent waits for the next message."""
    return _data(event).get("type") == "ready"


def _data(event: Event) -> dict[str, Any]:
    content = event["message"]["content"] if event.get("type") == "message-received" else {}
    if content.get("role") != "agent":
        return {}
    data = content["content"].get("data")
    return data if isinstance(data, dict) else {}


def _family(pid: int) -> list[psutil.Process]:
    """Return the descendants. A process that has just ended has none."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _own_memory(process: psutil.Process) -> float:
    """Return the MB that the process does not share."""
    with suppress(psutil.NoSuchProcess):
        return process.memory_full_info().uss / 1e6
    return 0.0


def _runs(process: psutil.Process, program: Path) -> bool:
    try:
        return Path(process.exe()) == program
    except psutil.Error:
        return False


def _wait(condition: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise Unavailable(failure)
        time.sleep(RETRY)
