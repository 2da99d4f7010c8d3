"""What becomes of each line Droid writes. Nothing here waits; what is to be said is in `turns`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farsteer.agents.droid import wire
from farsteer.agents.droid.asking import Asking
from farsteer.agents.droid.ending import Ending, Verdict
from farsteer.agents.droid.notes import PermissionResolved, TextDelta, ThinkingDelta
from farsteer.agents.droid.rpc import Rpc, Stray
from farsteer.agents.droid.settings import Dial
from farsteer.agents.droid.translator import Translator
from farsteer.agents.droid.usage import Meter
from farsteer.agents.turns import TurnOutput
from farsteer.core.errors import ErrorCode
from farsteer.core.lines import Line, Oversized

ADD_MESSAGE = "add_user_message"
CLOSE = "close_session"

_STREAMED = frozenset((TextDelta, ThinkingDelta))
"""Most of what Droid says, and never the end of anything."""


class Hearing:
    def __init__(self, rpc: Rpc, dial: Dial, meter: Meter, reply: Callable[[bytes], None]) -> None:
        self.turns = TurnOutput()
        self.ending = Ending()
        self.translator = Translator(self.turns, self.ending, dial, meter)
        self.asking = Asking(self.turns, self.translator.tools, dial, reply)
        self._rpc = rpc
        self._request_id: str | None = None
        self.cannot_close = False
        """This CLI does not know how to close a session."""

    def begin(self, turn_id: str, request_id: str) -> None:
        """A turn begins with this request. Raises Conflict while another runs."""
        self.turns.begin(turn_id)
        self._request_id = request_id
        self.translator.begin(request_id)

    @property
    def unconfirmed(self) -> bool:
        """The message that is to begin the turn has had no answer yet."""
        return self.turns.turn_id is not None and self._rpc.waits_for(self._request_id)

    def abandon(self) -> None:
        """The turn never began."""
        self.ending.end()
        self.asking.clear()
        self.turns.abandon()

    def end(self, verdict: Verdict) -> None:
        self.ending.end()
        self.asking.clear()
        self.turns.end(*verdict)

    def hear(self, lines: Iterable[Line]) -> None:
        tell = self.translator.tell
        for line in lines:
            if isinstance(line, Oversized):
                self._oversized(line)
                continue
            heard = wire.decode(line)
            if isinstance(heard, wire.Notification):
                params = heard.params
                note = params.notification
                tell(note, params.session_id)
                if type(note) in _STREAMED:
                    continue
                if isinstance(note, PermissionResolved):
                    self.asking.resolved(note.request_id)
                self.ending.speaks(heard.factory_protocol_version)
            else:
                self._take(heard)
            self.judge()

    def judge(self) -> None:
        """End the turn if it is over."""
        verdict = self.ending.verdict(
            working=self.translator.tools.working, asking=self.asking.waiting, streaming=self.translator.streaming
        )  # fmt: skip
        if verdict is not None:
            self.end(verdict)

    @property
    def patience(self) -> float | None:
        """How long Droid may be silent before the turn is taken for over; None: as long as it likes."""
        return self.ending.patience(
            working=self.translator.tools.working, asking=self.asking.waiting, streaming=self.translator.streaming
        )  # fmt: skip

    def _take(self, heard: wire.Request | wire.Response | wire.Unknown | wire.Garbage) -> None:
        match heard:
            case wire.Response():
                self.ending.speaks(heard.factory_protocol_version)
                stray = self._rpc.take(heard)
                if stray is not None:
                    self._strayed(stray)
            case wire.Request():
                self.asking.take(heard)
            case wire.Unknown():
                self.translator.unknown(heard.kind, heard.data, heard.session_id)
            case wire.Garbage():
                self.turns.add_notice(
                    f"Droid wrote a line that is none: {heard.text}", ErrorCode.AGENT_PROTOCOL
                )

    def _strayed(self, stray: Stray) -> None:
        assert stray.failure is not None
        text = stray.failure.message
        if stray.method == CLOSE:
            self.cannot_close = True
        elif stray.method == ADD_MESSAGE and stray.request_id == self._request_id:
            # The first answer was no promise.
            self.ending.refused(f"Droid: {text}")
        else:
            where = f" ({stray.method})" if stray.method else ""
            self.turns.add_notice(f"Droid reports an error{where}: {text}", ErrorCode.AGENT_PROTOCOL)

    def _oversized(self, line: Oversized) -> None:
        head = line.head.decode(errors="replace")
        self.turns.add_notice(f"A line of {line.size} bytes was skipped: {head}", ErrorCode.TOO_LARGE)

    def exited(self, verdict: Verdict) -> None:
        """The process is gone; so is the turn, unless it never began."""
        if self.unconfirmed:
            self.abandon()
        else:
            self.end(verdict)
