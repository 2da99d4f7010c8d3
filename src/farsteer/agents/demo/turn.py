"""One turn, from a person's message to its end: saying, thinking, asking, waiting, and being interrupted."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from farsteer.agents.demo.session import CONTEXT_SIZE, Session


class Interrupted(Exception):
    """The person wants the turn to end."""


class Answer:
    """What came back for something that was asked."""

    def __init__(self, ask: str, reply: dict[str, Any]) -> None:
        self.ask = ask
        self.allow: bool = reply.get("allow", False)
        self.always: bool = reply.get("always", False)
        self.tools: list[str] = reply.get("tools") or []
        """Further tools that are allowed for the session."""
        self.abort: bool = reply.get("abort", False)
        self.answers: dict[str, list[str]] = reply.get("answers") or {}
        self.mode: str | None = reply.get("mode")
        self.message: str | None = reply.get("message")


class Turn:
    def __init__(self, session: Session, id: str, perform: Callable[[Turn, str], None]) -> None:
        self.session = session
        self.id = id
        self.perform = perform
        self.ends = True
        """False: a misbehaviour has ended the turn, or never will."""
        self.deaf_to_interrupt = False
        self.steering: SimpleQueue[str] = SimpleQueue()
        self._answers: SimpleQueue[Answer | None] = SimpleQueue()
        self._interrupted = threading.Event()
        self._words = 0

    # -- called by the thread that reads

    def interrupt(self) -> None:
        if not self.deaf_to_interrupt:
            self._interrupted.set()
            self._answers.put(None)
            self.session.shell.kill()

    def answer(self, answer: Answer) -> None:
        self._answers.put(answer)

    # -- called by the thread that works

    def check(self) -> None:
        if self._interrupted.is_set():
            raise Interrupted

    def pause(self, seconds: float) -> None:
        if self._interrupted.wait(seconds):
            raise Interrupted

    def heed(self) -> None:
        """Do what the person said meanwhile."""
        while not self.steering.empty():
            self.perform(self, self.steering.get())

    def say(self, text: str, *, pace: float = 0.0) -> None:
        """A message, streamed word by word and then whole; on the disk before it is whole."""
        self._speak("message", "m", text, pace)

    def think(self, text: str, *, pace: float = 0.0) -> None:
        self._speak("thought", "t", text, pace)

    def ask(self, kind: str, title: str, **more: Any) -> Answer:
        """Ask a person and wait for the answer."""
        asked = self.begin_ask(kind, title, **more)
        return next(self.answers({asked}))

    def begin_ask(self, kind: str, title: str, **more: Any) -> str:
        asked = self.session.new_id("a")
        self.session.out.send("ask", ask=asked, kind=kind, title=title, **more)
        return asked

    def answers(self, asked: set[str]) -> Iterator[Answer]:
        """The answers to all that was asked, in the order in which they come."""
        open_asks = set(asked)
        try:
            while open_asks:
                answer = self._answers.get()
                self.check()
                if answer is None or answer.ask not in open_asks:
                    continue
                open_asks.remove(answer.ask)
                if answer.abort:
                    raise Interrupted
                yield answer
        finally:
            for left in sorted(open_asks):
                self.session.out.send("withdraw", ask=left)

    def usage(self) -> None:
        used = self.session.tokens()
        self.session.out.send(
            "usage", input=used, output=self._words, used=used, size=CONTEXT_SIZE, model=self.session.model
        )

    def _speak(self, type: str, prefix: str, text: str, pace: float) -> None:
        out, message = self.session.out, self.session.new_id(prefix)
        said: list[str] = []
        try:
            for word in re.findall(r"\S+\s*|\s+", text):
                self.check()
                out.send("delta", kind=type, message=message, text=word)
                said.append(word)
                if pace:
                    self.pause(pace)
        except Interrupted:
            if said:
                self._finish(type, message, "".join(said), partial=True)
            raise
        self._finish(type, message, text)

    def _finish(self, type: str, message: str, text: str, *, partial: bool | None = None) -> None:
        self._words += len(text.split())
        role = "agent" if type == "message" else "thought"
        record = {"role": role, "anchor": message, "text": text}
        self.session.history.add({**record, "partial": True} if partial else record)
        self.session.out.send(type, message=message, text=text, partial=partial, anchor=message)
