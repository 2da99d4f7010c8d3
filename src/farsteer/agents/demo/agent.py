"""The demo agent's process. It reads requests and writes replies and events as JSON lines.

The client sends the first line. Every line of the agent has a `type` and a number `n` that counts up from 1.

    → {"do":"open","session":S,"state":DIR,"start":"create"|"resume","forkOf"?,"cutAt"?,"mode","model"?,"effort"?,
       "generation","behave"?,"mcpServers"?,"directories"?}
    ← {"type":"hello","session":S,"version":V,"messages":N,"own"?,"commands":[{"name","description"}]}; `own` says that
      the agent chose the id of the conversation
      or {"type":"failed","reason","message"}, and the process exits
    → {"do":"prompt"|"steer","id":I,"turn":T,"message"?,"text","attachments":[{"name","mimeType","data"}]}; `message`
      becomes the anchor
    ← {"type":"reply","id":I,"error"?}: the message is on disk, or why it is not
    ← {"type":"delta","kind":"message"|"thought","message":M,"text"} …
    ← {"type":"message"|"thought","message":M,"text","anchor"?,"partial"?}: the whole message
    ← {"type":"tool","call":C,"tool","kind","title","input","status","path"?,"diff"?:{"path","old","new"}},
      {"type":"tool_output","call":C,"text"} …, {"type":"tool_update","call":C,"status","text"?,"partial"?}
    ← {"type":"ask","ask":A,"kind":"permission"|"question"|"plan","title","call"?,"tool"?,"toolKind"?,"arguments"?,
       "options"?,"questions"?,"plan"?}, {"type":"withdraw","ask":A}
    → {"do":"answer","ask":A,"allow":true|false,"always"?,"tools"?,"abort"?,"answers"?,"mode"?,
       "message"?}
    ← {"type":"plan","entries"}, {"type":"usage",…}, {"type":"title","title"}, {"type":"mode","mode"}
    → {"do":"set","mode"?,"model"?,"effort"?}
    → {"do":"interrupt","id":I}
    ← {"type":"done","id":I}: the interrupt is received; the turn may still run
    → {"do":"restore","id":I,"message","after"?}, between turns
    ← {"type":"restored","id":I,"status","restored","skipped","reason"?}
    ← {"type":"end","turn":T,"reason","error"?}

The main thread reads requests, a second thread runs turns. When the input ends, the agent kills its running shell
command and exits.
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
from farsteer.agents.demo.commands import COMMANDS, acknowledge_attachments, run_message
from farsteer.agents.demo.faults import find_start_fault
from farsteer.agents.demo.history import History, HistoryError
from farsteer.agents.demo.session import DemoSession, LineWriter
from farsteer.agents.demo.turn import AskReply, DemoTurn, TurnInterrupted


class Agent:
    def __init__(self, session: DemoSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._turn: DemoTurn | None = None
        self._prompts: SimpleQueue[tuple[DemoTurn, dict[str, Any]]] = SimpleQueue()

    def serve(self) -> None:
        """Handle requests until the input ends, then exit."""
        self._session.install_signal_handler()
        threading.Thread(target=self._run_turns, daemon=True).start()
        for line in sys.stdin.buffer:
            self._handle(json.loads(line))
        self._session.shell.kill(close=True)
        if not self._session.exits_at_eof:
            signal.pause()
        os._exit(0)

    def _handle(self, request: dict[str, Any]) -> None:
        turn = self._turn
        match request["do"]:
            case "prompt":
                self._start_turn(request)
            case "steer":
                self._steer(request)
            case "set":
                self._session.configure(request)
            case "answer" if turn is not None:
                turn.receive_reply(AskReply(request))
            case "interrupt":
                if self._session.acknowledges_interrupt:
                    self._session.writer.send("done", id=request["id"])
                if turn is not None:
                    turn.interrupt()
            case "restore":
                self._restore(request)
            case _:
                # An answer that arrives after the end of its turn is ignored.
                pass

    def _start_turn(self, request: dict[str, Any]) -> None:
        with self._lock:
            if self._turn is not None and self._turn.reports_end:
                self._reply(request, "a turn is running")
                return
            if self._store_message(request):
                turn = self._turn = DemoTurn(self._session, request["turn"], run_message)
                self._prompts.put((turn, request))

    def _steer(self, request: dict[str, Any]) -> None:
        with self._lock:
            if self._turn is None or self._turn.id != request["turn"]:
                self._reply(request, "that turn is over")
                return
            if self._store_message(request):
                self._turn.steering.put(request["text"])

    def _store_message(self, request: dict[str, Any]) -> bool:
        """Write the message to disk and reply. Returns whether that worked."""
        anchor = request.get("message") or self._session.new_id("u")
        try:
            with self._session.copies.lock:
                self._session.history.add({"role": "user", "anchor": anchor, "text": request["text"]})
        except OSError as error:
            self._reply(request, f"the message could not be stored: {error}")
            return False
        if self._session.confirms_messages:
            self._reply(request)
        return True

    def _restore(self, request: dict[str, Any]) -> None:
        with self._lock:
            if self._turn is not None and self._turn.reports_end:
                self._reply(request, "a turn is running")
                return
            # A turn that reported its end too early may still be changing a file.
            with self._session.copies.lock:
                restored = self._session.copies.restore(request["message"], request.get("after"))
        self._session.writer.send("restored", id=request["id"], **restored)

    def _reply(self, request: dict[str, Any], error: str | None = None) -> None:
        self._session.writer.send("reply", id=request["id"], error=error)

    def _run_turns(self) -> None:
        while True:
            turn, request = self._prompts.get()
            reason, error = "end_turn", None
            try:
                acknowledge_attachments(turn, request.get("attachments") or [])
                run_message(turn, request["text"])
                while not self._close_turn(turn):
                    turn.run_steering()
            except TurnInterrupted:
                reason = "cancelled"
            except Exception as failure:  # noqa: BLE001
                reason, error = "failed", f"{type(failure).__name__}: {failure}"
            self._close_turn(turn, force=True)
            if turn.reports_end:
                turn.send_usage()
                self._session.writer.send("end", turn=turn.id, reason=reason, error=error)

    def _close_turn(self, turn: DemoTurn, *, force: bool = False) -> bool:
        """Stop accepting messages into the turn. Returns False if one is waiting, unless `force` is set."""
        with self._lock:
            if not force and not turn.steering.empty():
                return False
            # After a turn that reported its end too early, the next one may be running already.
            if self._turn is turn:
                self._turn = None
            return True


def main() -> None:
    writer = LineWriter()
    request = json.loads(sys.stdin.buffer.readline() or b"null")
    if request is None:
        return
    fault = find_start_fault(request)
    fault.before(writer, request)
    try:
        history = _open_history(request)
    except HistoryError as error:
        writer.send("failed", reason=error.reason, message=str(error))
        sys.exit(1)
    session = DemoSession(writer, history, os.getcwd(), request)
    writer.send(
        "hello", session=request.get("alias", session.id), version=__version__, messages=len(history.messages),
        own=request.get("own"),
        commands=[{"name": command.usage, "description": command.summary} for command in COMMANDS],
    )  # fmt: skip
    fault.after(session)
    Agent(session).serve()


def _open_history(request: dict[str, Any]) -> History:
    folder, session, cut_at = request["state"], request["session"], request.get("cutAt")
    directory = os.getcwd()
    if request.get("forkOf"):
        return History.fork(folder, request["forkOf"], session, cut_at, directory)
    if request["start"] == "resume":
        return History.resume(folder, session, cut_at, directory)
    return History.create(folder, session, directory)


if __name__ == "__main__":
    main()
