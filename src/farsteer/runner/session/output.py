"""What a session does with the output of its agent."""

from __future__ import annotations

from collections.abc import Sequence

from farsteer.agents import base
from farsteer.agents.base import Exited, Output
from farsteer.core import events as ev
from farsteer.core.session import add_abandoned
from farsteer.runner.session.approvals import OpenApprovals
from farsteer.runner.session.launch_handle import LaunchHandle
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.mode_guard import ModeGuard
from farsteer.runner.session.turns import TurnManager


class OutputHandler:
    """Passes each output of an agent on: to the log, the approvals or the turn."""

    def __init__(
        self, log: SessionLog, approvals: OpenApprovals, turns: TurnManager, modes: ModeGuard
    ) -> None:
        self._log = log
        self._approvals = approvals
        self._modes = modes
        self._turns = turns

    def handle(self, outputs: Sequence[Output], handle: LaunchHandle) -> Exited | None:
        """Handle a batch of output of one launch.

        Deltas are published at once. Everything else is in the log and published with the next flush.

        Returns:
            The `Exited` that ends the launch, if the batch contains it. The running turn has been ended then.
        """
        self._turns.silence.reset()
        deltas: list[ev.Delta] = []
        exited: Exited | None = None
        for output in outputs:
            if isinstance(output, base.DeltaEmitted):
                deltas.append(output.delta)
                continue
            if deltas:
                self._log.publish_deltas(deltas)
                deltas = []
            match output:
                case base.EventEmitted():
                    self._handle_event(output.event)
                case base.ApprovalAsked():
                    self._approvals.open(output.approval)
                case base.ApprovalWithdrawn():
                    self._approvals.withdraw(output.approval_id)
                case base.TurnBegun():
                    self._turns.begin_by_agent(output)
                case base.TurnEnded():
                    self._turns.end_by_agent(output, handle)
                case base.Registered():
                    self._register(output.native_id)
                case base.Followed():
                    self._log.update_private_state(transcript_at=output.record)
                case base.Exited():
                    self._turns.end_by_exit(handle, output.reason)
                    exited = output
                    break
        if deltas:
            self._log.publish_deltas(deltas)
        return exited

    def _handle_event(self, event: ev.SessionEvent) -> None:
        if isinstance(event, ev.UsageUpdate):
            event = self._turns.attribute(event)
        elif isinstance(event, ev.ModeUpdate):
            left = self._modes.check(event)
            if left is None:
                return
            event = left
        else:
            self._turns.silence.track_tool(event)
        self._log.add(event)

    def _register(self, native_id: str) -> None:
        """Record that the agent keeps the conversation under `native_id`. A fork is complete by that."""
        abandoned = add_abandoned(self._log.state, native_id)
        self._log.update_private_state(left_behind=abandoned, native_id=native_id, registered=True)
        if self._log.state.fork_of is not None:
            self._log.update_private_state(fork_of=None, cut_at=None)
