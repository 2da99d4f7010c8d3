"""The CLI driven without a hub, by the least that can do it.

There are two ways: with the flags and requests that every driver needs, and with all of Farsteer's, which cost the CLI
some time themselves.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from bench.agents.cli import Cli
from bench.agents.driver import Answered, Conversation, Driver, OnText, Stopwatch
from farsteer.agents.base import LaunchPlan
from farsteer.agents.claude import arguments as claude
from farsteer.agents.claude.launch import INITIALIZE as CLAUDE_INITIALIZE
from farsteer.agents.codex.launch import INITIALIZE as CODEX_INITIALIZE
from farsteer.agents.codex.settings import SettingsTracker
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.modes import PermissionMode

SOURCE = "external-api"
"""What created a session, if the request does not say it."""


class DirectAgent(Conversation):
    """One process of a CLI."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        self._directory = directory
        self._process = subprocess.Popen(
            argv, env=dict(environment), cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    @abstractmethod
    def open(self) -> None:
        """Return when the agent takes a message."""

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _lines(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)
        raise RuntimeError("the agent ended")


class DirectClaude(DirectAgent):
    def __init__(
        self, program: Path, environment: Mapping[str, str], directory: Path, plan: LaunchPlan | None
    ) -> None:
        self._initialize = {"hooks": {}} if plan is None else CLAUDE_INITIALIZE
        flags = claude_flags() if plan is None else claude.arguments(plan)
        added = {} if plan is None else claude.environment(plan)
        super().__init__([str(program), *flags], {**environment, **added}, directory)

    def open(self) -> None:
        request = {"subtype": "initialize", **self._initialize}
        self._write({"type": "control_request", "request_id": "1", "request": request})
        next(line for line in self._lines() if line["type"] == "control_response")

    def ask(self, text: str, on_text: OnText = lambda _: None) -> Answered:
        watch = Stopwatch()
        message = {"role": "user", "content": text}
        head = {"type": "user", "uuid": str(uuid4()), "parent_tool_use_id": None, "session_id": ""}
        self._write({**head, "message": message})
        for line in self._lines():
            match line["type"]:
                case "command_lifecycle" if line["command_uuid"] == head["uuid"]:
                    watch.confirm()
                case "stream_event":
                    piece = line["event"].get("delta", {}).get("text", "")
                    watch.hear(piece)
                    on_text(piece)
                case "result":
                    break
                case _:
                    pass
        return watch.answered()


def claude_flags() -> list[str]:
    """Return what is needed to send messages, to hear text as it is written and to be asked for permissions."""
    return [
        "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
        "--include-partial-messages", "--permission-prompt-tool", "stdio",
    ]  # fmt: skip


class DirectCodex(DirectAgent):
    def __init__(
        self, program: Path, environment: Mapping[str, str], directory: Path, plan: LaunchPlan | None
    ) -> None:
        settings = SettingsTracker(PermissionMode.DEFAULT, None, None)
        self._initialize = (
            CODEX_INITIALIZE if plan is not None else {"clientInfo": CODEX_INITIALIZE["clientInfo"]}
        )
        self._thread_params = {"approvalPolicy": "untrusted"} if plan is None else settings.thread_params()
        self._turn_params: dict[str, Any] = {}
        if plan is not None:
            settings.turn_accepted()
            self._turn_params = settings.turn_params()
        self._thread = ""
        super().__init__([str(program), "app-server"], environment, directory)

    def open(self) -> None:
        self._call(1, "initialize", self._initialize)
        self._write({"method": "initialized"})
        opened = self._call(2, "thread/start", {"cwd": str(self._directory), **self._thread_params})
        self._thread = opened["thread"]["id"]

    def ask(self, text: str, on_text: OnText = lambda _: None) -> Answered:
        watch = Stopwatch()
        params = {"threadId": self._thread, "input": [{"type": "text", "text": text}], **self._turn_params}
        self._write({"id": 3, "method": "turn/start", "params": params})
        for line in self._lines():
            match line.get("method"):
                case None if line.get("id") == 3:
                    watch.confirm()
                case "item/agentMessage/delta":
                    watch.hear(line["params"]["delta"])
                    on_text(line["params"]["delta"])
                case "turn/completed":
                    break
                case _:
                    pass
        return watch.answered()

    def _call(self, number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._write({"id": number, "method": method, "params": params})
        return next(line["result"] for line in self._lines() if line.get("id") == number)


AGENTS = {"claude": DirectClaude, "codex": DirectCodex}


class Direct(Driver):
    def __init__(self, cli: Cli, url: str, *, like_farsteer: bool = False) -> None:
        self._folder = TemporaryDirectory(prefix="farsteer-bench-", ignore_cleanup_errors=True)
        home = Path(self._folder.name)
        self._work = home / "work"
        self._work.mkdir()
        self._cli = cli
        self._environment = cli.environment(home, url)
        self._like_farsteer = like_farsteer

    def open(self) -> DirectAgent:
        plan = launch_plan(self._work) if self._like_farsteer else None
        agent = AGENTS[self._cli.name](self._cli.program(), self._environment, self._work, plan)
        try:
            agent.open()
        except BaseException:
            agent.close()
            raise
        return agent

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()


def launch_plan(directory: Path) -> LaunchPlan:
    """Return what Farsteer plans for a new session that was created over REST without settings."""
    session = str(uuid4())
    decision = LaunchDecision(start=LaunchMode.CREATE, native_id=session)
    return LaunchPlan(
        session_id=session, directory=str(directory), generation=1, decision=decision, source=SOURCE
    )
