"""One turn, from a person's message to its end: sending messages, asking, waiting, and being interrupted."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from farsteer.agents.demo.session import CONTEXT_SIZE, DemoSession


class TurnInterrupted(Exception):
    """The turn was interrupted."""


class AskReply:
    """The client's answer to something that was asked."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.ask: str = request["ask"]
        self.allow: bool = request.get("allow", False)
        self.always: bool = request.get("always", False)
        self.tools: list[str] = request.get("tools") or []
        """Further tools that are allowed for the session."""
        self.abort: bool = request.get("abort", False)
        self.answers: dict[str, list[str]] = request.get("answers") or {}
        self.mode: str | None = request.get("mode")
        self.message: str | None = request.get("message")


class DemoTurn:
    def __init__(self, session: DemoSession, id: str, run_message: Callable[[DemoTurn, str], None]) -> None:
        self.session = session
        self.id = id
        self.reports_end = True
        """False if a fault has reported the end of the turn already."""
        self.ignores_interrupt = False
        self.steering: SimpleQueue[str] = SimpleQueue()
        """Messages that were sent into the running turn."""
        self._run_message = run_message
        self._replies: SimpleQueue[AskReply | None] = SimpleQueue()
        self._interrupted = threading.Event()
        self._words = 0

    # Called by the reading thread

    def interrupt(self) -> None:
        if not self.ignores_interrupt:
            self._interrupted.set()
            self._replies.put(None)
            self.session.shell.kill()

    def receive_reply(self, reply: AskReply) -> None:
        self._replies.put(reply)

    # Called by the working thread

    def check_interrupt(self) -> None:
        """Raise Interrupted if the turn was interrupted."""
        if self._interrupted.is_set():
            raise TurnInterrupted

    def pause(self, seconds: float) -> None:
        """Sleep. Raises Interrupted."""
        if self._interrupted.wait(seconds):
            raise TurnInterrupted

    def run_steering(self) -> None:
        """Run the messages that were sent into the turn."""
        while not self.steering.empty():
            self._run_message(self, self.steering.get())

    def send_message(self, text: str, *, pace: float = 0.0) -> None:
        """Stream a message word by word, `pace` seconds apart, then store it and send it whole."""
        self._stream("message", "m", text, pace)

    def send_thought(self, text: str, *, pace: float = 0.0) -> None:
        """Stream a thought like a message."""
        self._stream("thought", "t", text, pace)

    def ask(self, kind: str, title: str, **fields: Any) -> AskReply:
        """Ask a person and wait for the reply."""
        asked = self.send_ask(kind, title, **fields)
        return next(self.wait_replies({asked}))

    def send_ask(self, kind: str, title: str, **fields: Any) -> str:
        """Ask a person. Returns the id of the question."""
        asked = self.session.new_id("a")
        self.session.writer.send("ask", ask=asked, kind=kind, title=title, **fields)
        return asked

    def wait_replies(self, asked: set[str]) -> Iterator[AskReply]:
        """Yield the replies to all these questions as they come. Unanswered ones are withdrawn at the end."""
        open_asks = set(asked)
        try:
            while open_asks:
                reply = self._replies.get()
                self.check_interrupt()
                if reply is None or reply.ask not in open_asks:
                    continue
                open_asks.remove(reply.ask)
                if reply.abort:
                    raise TurnInterrupted
                yield reply
        finally:
            for ask in sorted(open_asks):
                self.session.writer.send("withdraw", ask=ask)

    def send_usage(self) -> None:
        used = self.session.count_tokens()
        self.session.writer.send(
            "usage", input=used, output=self._words, used=used, size=CONTEXT_SIZE, model=self.session.model
        )

    def _stream(self, type: str, prefix: str, text: str, pace: float) -> None:
        writer, message = self.session.writer, self.session.new_id(prefix)
        sent: list[str] = []
        try:
            for word in re.findall(r"\S+\s*|\s+", text):
                self.check_interrupt()
                writer.send("delta", kind=type, message=message, text=word)
                sent.append(word)
                if pace:
                    self.pause(pace)
        except TurnInterrupted:
            if sent:
                self._finish(type, message, "".join(sent), partial=True)
            raise
        self._finish(type, message, text)

    def _finish(self, type: str, message: str, text: str, *, partial: bool | None = None) -> None:
        self._words += len(text.split())
        role = "agent" if type == "message" else "thought"
        record = {"role": role, "anchor": message, "text": text}
        self.session.history.add({**record, "partial": True} if partial else record)
        self.session.writer.send(type, message=message, text=text, partial=partial, anchor=message)
