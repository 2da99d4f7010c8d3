"""Rewinding a session: the conversation continues from an earlier entry of the log."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from farsteer.core import events as ev
from farsteer.core.commands import Rewind
from farsteer.core.errors import Conflict, ErrorCode, FarsteerError, NotCapable
from farsteer.core.events import FileRestore, FilesRestored
from farsteer.core.ids import new_id
from farsteer.core.queue import REWIND_REASON, ItemState
from farsteer.runner.session.agent_calls import AgentCalls, PromptDelivery
from farsteer.runner.session.context import ActorContext
from farsteer.runner.session.launcher import UNKNOWN_ANCHOR_NOTICE, Launcher
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.mailbox import resolve
from farsteer.runner.session.turns import TurnManager

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RewindInProgress:
    command: Rewind
    done: asyncio.Future[Any]
    files: FilesRestored | None = None
    """None until the second step is done."""
    prewarm: bool = True
    """Prewarm a process when it is complete."""

    def skip_files(self, reason: str) -> None:
        """Continue without restoring files: there is no process to do it."""
        if self.files is None:
            self.files = _failed(reason)

    def continue_without_process(self, reason: str) -> None:
        """Start no process, neither for the files nor afterwards: the session was stopped."""
        self.skip_files(reason)
        self.prewarm = False


class Rewinds:
    """Carries out at most one rewind at a time, in four steps:

    1. Waiting messages are cancelled and the running turn is interrupted (`begin`). It must have ended before the next.
    2. Files are restored by the running process; one is started if there is none. A failure does not stop the rewind.
    3. The process is stopped: the next one starts from the new end of the conversation.
    4. `Rewound` is logged and the command answered.

    `advance` goes on as far as it can without waiting. The actor calls it after each of its steps. Messages sent
    meanwhile stay in the queue until the rewind is complete.
    """

    def __init__(
        self, context: ActorContext, log: SessionLog, turns: TurnManager, launcher: Launcher, calls: AgentCalls,
        delivery: PromptDelivery,
    ) -> None:  # fmt: skip
        self._context = context
        self._restore_timeout = context.limits.restore
        self._log = log
        self._turns = turns
        self._launcher = launcher
        self._calls = calls
        self._delivery = delivery
        self.current: RewindInProgress | None = None

    async def begin(self, command: Rewind, done: asyncio.Future[Any]) -> None:
        """Begin a rewind. `done` gets the `Rewound` event.

        Raises NotCapable if the agent cannot rewind, and Conflict if a rewind is in progress or the log has no such
        entry.
        """
        if not self._context.adapter.capabilities.rewind:
            raise NotCapable("this agent cannot rewind a conversation")
        if self.current is not None:
            raise Conflict("a rewind of this session is in progress")
        if command.first_seq > self._log.state.seq:
            raise Conflict(f"the log has no entry {command.first_seq}")
        self._turns.set_outcome_of_waiting(ItemState.CANCELLED, REWIND_REASON)
        self.current = RewindInProgress(command, done)
        if self._launcher.is_in_terminal:
            self._launcher.stop(REWIND_REASON)
        else:
            await self._delivery.interrupt()

    async def advance(self, rewind: RewindInProgress) -> None:
        """Continue the current rewind until something has to be waited for."""
        if self._log.state.turn_id is not None:
            return
        if rewind.files is None:
            rewind.files = await self._restore_files(rewind.command)
        if rewind.files is None:
            return
        if self._launcher.current is not None:
            self._launcher.stop(REWIND_REASON)
            return
        await self._complete(rewind, rewind.files)

    def close(self) -> None:
        """Answer the command of a rewind that will not be completed."""
        if self.current is not None:
            resolve(self.current.done, Conflict("this session is closing"))

    async def _restore_files(self, command: Rewind) -> FilesRestored | None:
        """Return what became of the files, or None while a process is being started for it."""
        if command.files_at is None:
            return FilesRestored(status=FileRestore.SKIPPED)
        if not self._context.adapter.capabilities.file_restore:
            return FilesRestored(status=FileRestore.UNSUPPORTED)
        if command.keeps:
            return _failed("the agent has no anchor for this entry")
        if self._launcher.ready_launch is None:
            await self._launcher.ensure_process()
        launch = self._launcher.ready_launch
        if launch is None:
            return None
        try:
            restore = launch.restore_files(command.files_at, command.cut_at)
            return await self._calls.call(restore, self._restore_timeout)
        except TimeoutError:
            return _failed("the agent took too long")
        except FarsteerError as error:
            return _failed(error.message)
        except Exception as error:
            _logger.exception("session %s: the adapter failed to restore files", self._log.state.id)
            return _failed(f"the agent's adapter failed: {type(error).__name__}")

    async def _complete(self, rewind: RewindInProgress, files: FilesRestored) -> None:
        command = rewind.command
        starts_anew = command.cut_at is None and not command.keeps
        chosen_id = self._context.adapter.capabilities.caller_chosen_id
        native_id = new_id() if starts_anew and chosen_id else None
        event = ev.Rewound(
            first_seq=command.first_seq, files=files, cut_at=command.cut_at, keeps=command.keeps,
            native_id=native_id, by=command.by, identity=command.identity,
        )  # fmt: skip
        self._log.add(event)
        if command.keeps:
            self._log.add(
                ev.Notice(text=UNKNOWN_ANCHOR_NOTICE, level="warning", code=ErrorCode.ANCHOR_UNKNOWN)
            )
        await self._log.flush()
        self.current = None
        resolve(rewind.done, None, event)
        if rewind.prewarm:
            self._launcher.schedule_prewarm()


def _failed(reason: str) -> FilesRestored:
    return FilesRestored(status=FileRestore.FAILED, reason=reason)
