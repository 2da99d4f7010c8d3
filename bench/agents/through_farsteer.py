"""The CLI driven through Farsteer, by a client that sends REST requests and hears server-sent events."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from bench import measure, wire
from bench.agents.cli import Cli
from bench.agents.driver import DEADLINE, HELLO, Answered, Conversation, Driver, OnText, Stopwatch
from bench.peers.farsteer import Client, Farsteer

Event = dict[str, Any]


class AgentHub(Farsteer):
    """`farsteer up` on a machine that has the CLI."""

    def __init__(self, cli: Cli, url: str) -> None:
        super().__init__()
        self._cli_environment = cli.environment(self.home, url)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self._cli_environment}


class ThroughFarsteer(Driver):
    def __init__(self, cli: Cli, url: str) -> None:
        self._cli = cli
        self._hub = AgentHub(cli, url)

    def open(self) -> Conversation:
        return FarsteerConversation(self, self._create({}))

    def first_text(self) -> float:
        """Create a session with a prompt, which is one request."""
        watch = Stopwatch()
        with FarsteerConversation(self, self._create({"prompt": HELLO})) as conversation:
            return conversation.hear(watch, lambda _: None).first_text

    def memory(self) -> float:
        return measure.resident(self._hub.servers())

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._client.post(path, body)

    def until(self, condition: Callable[[Event], bool]) -> None:
        """Read events until one fulfils the condition."""
        deadline = time.monotonic() + DEADLINE
        for line in self._lines:
            if line.startswith(b"data:") and condition(json.loads(line[5:])):
                return
            if time.monotonic() > deadline:
                break
        raise RuntimeError("Farsteer did not send the event that was expected")

    def _create(self, more: dict[str, Any]) -> str:
        asked = {"machineId": self._machine, "directory": str(self._hub.work), "agent": self._cli.name}
        session: str = self.post("/api/sessions", {**asked, **more})["sessionId"]
        return session

    def __enter__(self) -> Self:
        self._hub.__enter__()
        try:
            self._hub.start()
            self._client: Client = self._hub.client()
            self._machine = json.loads(self._client.get("/api/machines"))["machines"][0]["id"]
            self._socket = socket.create_connection((wire.HOST, self._hub.port), timeout=DEADLINE)
            self._socket.sendall(wire.get(self._hub.port, "/api/events", self._client.jwt))
            self._lines = self._socket.makefile("rb")
        except BaseException:
            self._hub.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()
        self._client.close()
        self._hub.__exit__(kind, error, trace)


class FarsteerConversation(Conversation):
    def __init__(self, driver: ThroughFarsteer, session: str) -> None:
        self._driver = driver
        self._session = session

    def ask(self, text: str, on_text: OnText = lambda _: None) -> Answered:
        watch = Stopwatch()
        self._driver.post(f"/api/sessions/{self._session}/messages", {"text": text})
        return self.hear(watch, on_text)

    def hear(self, watch: Stopwatch, on_text: OnText) -> Answered:
        """Read events until the end of the turn."""

        def ended(event: Event) -> bool:
            if event.get("sessionId") != self._session:
                return False
            piece = text_of(event)
            watch.hear(piece)
            on_text(piece)
            if is_delivery(event):
                watch.confirm()
            return content_of(event).get("kind") == "turn_end"

        self._driver.until(ended)
        return watch.answered()

    def close(self) -> None:
        self._driver.post(f"/api/sessions/{self._session}/stop", {})


def text_of(event: Event) -> str:
    is_text = event.get("type") == "message-delta" and event["delta"]["kind"] == "agent_message"
    return event["delta"]["text"] if is_text else ""


def content_of(event: Event) -> dict[str, Any]:
    return event["message"]["content"] if event.get("type") == "message-received" else {}


def is_delivery(event: Event) -> bool:
    content = content_of(event)
    return content.get("kind") == "queue_update" and content.get("state") == "delivered"
