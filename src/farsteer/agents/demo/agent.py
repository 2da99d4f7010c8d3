"""The demo agent's process: JSON lines on stdin and stdout.

The client speaks first; every line of the agent carries `type` and a rising number `n`.

    → {"do":"open","session":S,"state":DIR,"start":"create"|"resume","forkOf"?,"cutAt"?,"mode","model"?,"effort"?,
       "generation","behave"?,"mcpServers"?,"directories"?}
    ← {"type":"hello","session":S,"version":V,"messages":N,"own"?,"commands":[{"name","description"}]}; `own`: it has
      named the conversation itself
      or {"type":"failed","reason","message"} and the end
    → {"do":"prompt"|"steer","id":I,"turn":T,"message"?,"text","attachments":[{"name","mimeType","data"}]}; `message`
      becomes the anchor
    ← {"type":"reply","id":I,"error"?}: the message is on the disk, or why not
    ← {"type":"delta","kind":"message"|"thought","message":M,"text"} …
    ← {"type":"message"|"thought","message":M,"text","anchor"?,"partial"?}: the whole of it
    ← {"type":"tool","call":C,"tool","kind","title","input","status","path"?,"diff"?:{"path","old","new"}},
      {"type":"tool_output","call":C,"text"} …, {"type":"tool_update","call":C,"status","text"?}
    ← {"type":"ask","ask":A,"kind":"permission"|"question"|"plan","title","call"?,"tool"?,"toolKind"?,"arguments"?,
       "options"?,"questions"?,"plan"?}, {"type":"withdraw","ask":A}
    → {"do":"answer","ask":A,"allow":true|false,"always"?,"tools"?,"abort"?,"answers"?,"mode"?,
       "message"?}
    ← {"type":"plan","entries"}, {"type":"usage",…}, {"type":"title","title"}, {"type":"mode","mode"}
    → {"do":"set","mode"?,"model"?,"effort"?}
    → {"do":"interrupt","id":I}
    ← {"type":"done","id":I}: heard, not yet obeyed
    → {"do":"restore","id":I,"message","after"?}, between turns
    ← {"type":"restored","id":I,"status","restored","skipped","reason"?}
    ← {"type":"end","turn":T,"reason","error"?}

The main thread reads, a second one works. When its input ends the agent ends at once, and its command with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import Any

from farsteer import __version__
from farsteer.agents.demo import starting
from farsteer.agents.demo.history import History, HistoryError
from farsteer.agents.demo.out import Out
from farsteer.agents.demo.repertoire import COMMANDS
from farsteer.agents.demo.script import acknowledge, perform
from farsteer.agents.demo.session import Session
from farsteer.agents.demo.turn import Answer, Interrupted, Turn


class Agent:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._turn: Turn | None = None
        self._prompts: SimpleQueue[tuple[Turn, dict[str, Any]]] = SimpleQueue()

    def serve(self) -> None:
        """Read until the input ends."""
        self._session.take_orders()
        threading.Thread(target=self._work, daemon=True).start()
        for line in sys.stdin.buffer:
            self._take(json.loads(line))
        self._session.shell.kill(close=True)
        if not self._session.leaves_at_end:
            signal.pause()
        os._exit(0)

    def _take(self, request: dict[str, Any]) -> None:
        turn = self._turn
        match request["do"]:
            case "prompt":
                self._prompt(request)
            case "steer":
                self._steer(request)
            case "set":
                self._session.configure(request)
            case "answer" if turn is not None:
                turn.answer(Answer(request["ask"], request))
            case "interrupt":
                if self._session.acknowledges:
                    self._session.out.send("done", id=request["id"])
                if turn is not None:
                    turn.interrupt()
            case "restore":
                self._restore(request)
            case _:
                """An answer that comes after its turn is late, not wrong."""

    def _prompt(self, request: dict[str, Any]) -> None:
        with self._lock:
            if self._turn is not None and self._turn.ends:
                self._reply(request, "a turn is running")
                return
            if self._remember(request):
                turn = self._turn = Turn(self._session, request["turn"], perform)
                self._prompts.put((turn, request))

    def _steer(self, request: dict[str, Any]) -> None:
        with self._lock:
            if self._turn is None or self._turn.id != request["turn"]:
                self._reply(request, "that turn is over")
                return
            if self._remember(request):
                self._turn.steering.put(request["text"])

    def _remember(self, request: dict[str, Any]) -> bool:
        """Put the message on the disk and say so, or say why not."""
        anchor = request.get("message") or self._session.new_id("u")
        try:
            with self._session.copies.changing:
                self._session.history.add({"role": "user", "anchor": anchor, "text": request["text"]})
        except OSError as error:
            self._reply(request, f"the message could not be stored: {error}")
            return False
        self._reply(request)
        return True

    def _restore(self, request: dict[str, Any]) -> None:
        with self._lock:
            if self._turn is not None and self._turn.ends:
                self._reply(request, "a turn is running")
                return
            # A turn that claimed to be over may still be at a file.
            with self._session.copies.changing:
                found = self._session.copies.restore(request["message"], request.get("after"))
        self._session.out.send("restored", id=request["id"], **found)

    def _reply(self, request: dict[str, Any], error: str | None = None) -> None:
        self._session.out.send("reply", id=request["id"], error=error)

    def _work(self) -> None:
        while True:
            turn, request = self._prompts.get()
            reason, error = "end_turn", None
            try:
                acknowledge(turn, request.get("attachments") or [])
                perform(turn, request["text"])
                while not self._over(turn):
                    turn.heed()
            except Interrupted:
                reason = "cancelled"
            except Exception as failure:  # noqa: BLE001
                reason, error = "failed", f"{type(failure).__name__}: {failure}"
            self._over(turn, whatever=True)
            if turn.ends:
                turn.usage()
                self._session.out.send("end", turn=turn.id, reason=reason, error=error)

    def _over(self, turn: Turn, *, whatever: bool = False) -> bool:
        """Let go of the turn, if nothing is left to heed; from then on nothing more can reach it."""
        with self._lock:
            if not whatever and not turn.steering.empty():
                return False
            # A turn that claimed to be over may have been followed by the next one already.
            if self._turn is turn:
                self._turn = None
            return True


def main() -> None:
    out = Out()
    opening = json.loads(sys.stdin.buffer.readline() or b"null")
    if opening is None:
        return
    start = starting.asked_for(opening)
    start.before(out, opening)
    try:
        history = _history(opening)
    except HistoryError as error:
        out.send("failed", reason=error.reason, message=str(error))
        sys.exit(1)
    session = Session(out, history, os.getcwd(), opening)
    out.send(
        "hello", session=opening.get("alias", session.id), version=__version__, messages=len(history.messages),
        own=opening.get("own"),
        commands=[{"name": command.usage, "description": command.summary} for command in COMMANDS],
    )  # fmt: skip
    start.after(session)
    Agent(session).serve()


def _history(opening: dict[str, Any]) -> History:
    folder, session, cut_at, directory = (
        opening["state"],
        opening["session"],
        opening.get("cutAt"),
        os.getcwd(),
    )
    if opening.get("forkOf"):
        return History.fork(folder, opening["forkOf"], session, cut_at, directory)
    if opening["start"] == "resume":
        return History.resume(folder, session, cut_at, directory)
    return History.create(folder, session, directory)


if __name__ == "__main__":
    main()
