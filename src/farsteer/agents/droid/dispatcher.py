"""Decodes the lines that Droid writes and passes each to its handler."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farsteer.agents.droid import protocol
from farsteer.agents.droid.approvals import PendingApprovals
from farsteer.agents.droid.rpc import RpcClient, UnmatchedError
from farsteer.agents.droid.settings import SettingsTracker
from farsteer.agents.droid.translator import Translator
from farsteer.agents.droid.turn_completion import Outstanding, TurnCompletionDetector, TurnOutcome
from farsteer.agents.droid.usage import UsageTracker
from farsteer.agents.turns import TurnOutput
from farsteer.core.droid import Method
from farsteer.core.errors import ErrorCode
from farsteer.core.lines import Line, Oversized

_DELTAS = frozenset((protocol.TextDelta, protocol.ThinkingDelta))
"""Most of what Droid sends. They never end a turn."""


class LineDispatcher:
    """Handles lines without waiting. The result is in `output`."""

    def __init__(
        self, output: TurnOutput, rpc: RpcClient, settings: SettingsTracker, usage: UsageTracker,
        write: Callable[[bytes], None],
    ) -> None:  # fmt: skip
        self.output = output
        self.completion = TurnCompletionDetector()
        self.translator = Translator(self.output, self.completion, settings, usage)
        self.approvals = PendingApprovals(
            self.output, self.translator.tools, settings, write, self.completion.denial_sent
        )
        self._rpc = rpc
        self._request_id: str | None = None
        self.close_unsupported = False
        """Droid has rejected `close_session`."""

    # -- turns

    def start_turn(self, turn_id: str, request_id: str) -> None:
        """Start a turn whose message is sent with this request. Raises Conflict while another turn of ours runs.

        Droid takes the message when it has ended a turn of its own. What is left of that belongs to ours.
        """
        busy = self.completion.is_own_turn
        if busy:
            self.approvals.clear()
            self.translator.keep_abandoned()
            self.output.hand_over(turn_id)
        else:
            self.output.begin(turn_id)
        self._request_id = request_id
        self.translator.start_turn(request_id, busy=busy)

    def abandon_turn(self) -> None:
        """Forget a turn that never began, because Droid did not accept its message."""
        self.completion.end_turn()
        self.approvals.clear()
        self.output.abandon()

    def end_turn(self, result: TurnOutcome) -> None:
        self.completion.end_turn()
        self.approvals.clear()
        self.translator.keep_abandoned()
        self.output.end(*result)

    def handle_exit(self, result: TurnOutcome) -> None:
        """The process has exited: end the turn, or abandon it if its message was not confirmed."""
        is_unconfirmed = self.output.turn_id is not None and self._rpc.is_open(self._request_id)
        if is_unconfirmed:
            self.abandon_turn()
        else:
            self.end_turn(result)

    @property
    def silence_timeout(self) -> float | None:
        """After how much silence the turn is considered over; None for no limit."""
        return self.completion.timeout(self._outstanding())

    def _outstanding(self) -> Outstanding:
        return Outstanding(
            tool=self.translator.tools.any_unfinished,
            approval=self.approvals.any_open,
            message=self.translator.is_streaming,
        )

    # -- lines

    def handle_lines(self, lines: Iterable[Line]) -> None:
        handle = self.translator.handle
        for line in lines:
            if isinstance(line, Oversized):
                self.output.add_oversized(line)
                continue
            decoded = protocol.decode_line(line)
            if isinstance(decoded, protocol.NotificationLine):
                params = decoded.params
                notification = params.notification
                handle(notification, params.session_id)
                if type(notification) in _DELTAS:
                    continue
                if isinstance(notification, protocol.PermissionResolved):
                    self.approvals.handle_resolved(notification.request_id)
                self.completion.set_protocol_version(decoded.factory_protocol_version)
            else:
                self._handle_other(decoded)
            result = self.completion.result(self._outstanding())
            if result is not None:
                self.end_turn(result)

    def _handle_other(
        self, line: protocol.Request | protocol.Response | protocol.UnknownNotification | protocol.InvalidLine
    ) -> None:
        match line:
            case protocol.Response():
                self.completion.set_protocol_version(line.factory_protocol_version)
                unmatched = self._rpc.handle_response(line)
                if unmatched is not None:
                    self._handle_unmatched(unmatched)
            case protocol.Request():
                self.approvals.handle_request(line)
            case protocol.UnknownNotification():
                self.translator.handle_unknown(line.kind, line.data, line.session_id)
            case protocol.InvalidLine():
                self.output.add_notice(f"Droid wrote an invalid line: {line.text}", ErrorCode.AGENT_PROTOCOL)

    def _handle_unmatched(self, error: UnmatchedError) -> None:
        text = error.failure.message
        if error.method == Method.CLOSE_SESSION:
            self.close_unsupported = True
        elif error.method == Method.ADD_USER_MESSAGE and error.request_id == self._request_id:
            # Droid acknowledged the message and then refused it.
            self.completion.prompt_refused(f"Droid: {text}")
        else:
            method = f" ({error.method})" if error.method else ""
            self.output.add_notice(f"Droid reports an error{method}: {text}", ErrorCode.AGENT_PROTOCOL)
