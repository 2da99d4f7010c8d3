"""A session driven by hypothesis, which shrinks a failure to the steps it needs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from farsteer.core import commands
from farsteer.core.approvals import Answer, Outcome
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Delivery
from farsteer.link.messages import OLDEST_PROTOCOL, PROTOCOL
from tests.endurance.agent import ACCEPT_MODES, ACTIONS, RESTORE_MODES, START_MODES, TURN_ENDINGS
from tests.endurance.system import SimulatedSystem

# Mostly well-behaved agents, so that sessions get far enough for the rest to matter.
accept_modes = st.one_of(st.just("accept"), st.sampled_from(ACCEPT_MODES))
actions = st.one_of(
    st.just("message"),
    st.just("message,ask,message"),
    st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=3).map(",".join),
)
turn_endings = st.one_of(st.just("end"), st.sampled_from(TURN_ENDINGS))
deliveries = st.sampled_from(Delivery)
outcomes = st.sampled_from([Outcome.APPROVED, Outcome.DENIED, Outcome.ABORT])
messages = st.tuples(accept_modes, actions, turn_endings, deliveries)
Message = tuple[str, str, str, Delivery]
Pause = tuple[Message | Outcome | None, float]
# Before the next step: often another message or an answer, then a few turns of the loop or some time.
pauses = st.tuples(
    st.none() | messages | outcomes,
    st.one_of(st.integers(0, 12), st.sampled_from([0.02, 0.3, 2.0, 20.0, 700.0])),
)


class SessionMachine(RuleBasedStateMachine):
    steps = 0
    """Of all examples so far."""

    def __init__(self) -> None:
        super().__init__()
        self._root = Path(tempfile.mkdtemp(prefix="endurance-"))
        self.system = SimulatedSystem(self._root)
        self.sent = 0
        self.opened = False

    @initialize()
    def begin(self) -> None:
        self.system.__enter__()
        self.opened = True

    def teardown(self) -> None:
        try:
            if self.opened:
                self.system.__exit__()
        finally:
            shutil.rmtree(self._root)

    def go_on(self, pause: Pause) -> None:
        """Let some time pass, then check the promises."""
        type(self).steps += 1
        system, (act, time) = self.system, pause
        if isinstance(act, Outcome):
            for approval in system.checker.approvals[-1:]:
                system.respond(approval, Answer(outcome=act))
        elif act is not None:
            self._send(act)
        system.run(system.ticks(time) if isinstance(time, int) else system.wait(time))
        system.check()

    # -- messages

    def _send(self, message: Message) -> None:
        accept_mode, actions, ending, delivery = message
        self.sent += 1
        self.system.send(f"m{self.sent}", f"{accept_mode} {actions} {ending}", delivery)

    @rule(message=messages, pause=pauses)
    def send(self, message: Message, pause: Pause) -> None:
        self._send(message)
        self.go_on(pause)

    @rule(count=st.integers(2, 5), pause=pauses)
    def send_several(self, count: int, pause: Pause) -> None:
        for _ in range(count):
            self._send(("accept", "message", "end", Delivery.QUEUE))
        self.go_on(pause)

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(0, 3), pause=pauses)
    def send_again(self, back: int, pause: Pause) -> None:
        """Repeat a message, as a client does that got no answer."""
        name = f"m{max(1, self.sent - back)}"
        if name in self.system.local_ids:
            self.system.send(name, "", Delivery.QUEUE)
        self.go_on(pause)

    @precondition(lambda self: self.system.names)
    @rule(back=st.integers(0, 5), pause=pauses)
    def cancel(self, back: int, pause: Pause) -> None:
        self.system.cancel(self._item(back))
        self.go_on(pause)

    @precondition(lambda self: self.system.names)
    @rule(back=st.integers(0, 5), pause=pauses)
    def send_now(self, back: int, pause: Pause) -> None:
        self.system.send_now(self._item(back))
        self.go_on(pause)

    def _item(self, back: int) -> str:
        items = [*self.system.names.values()]
        return items[-1 - back % len(items)]

    # -- steering

    @rule(pause=pauses)
    def interrupt(self, pause: Pause) -> None:
        self.system.command(commands.Abort())
        self.go_on(pause)

    @precondition(lambda self: self.system.checker.approvals)
    @rule(which=st.integers(0, 3), outcome=outcomes, times=st.integers(1, 2), pause=pauses)
    def answer(self, which: int, outcome: Outcome, times: int, pause: Pause) -> None:
        """Answer an open approval, or one that is closed; once or twice."""
        approvals = self.system.checker.approvals
        for _ in range(times):
            self.system.respond(approvals[-1 - which % len(approvals)], Answer(outcome=outcome))
        self.go_on(pause)

    @rule(
        mode=st.sampled_from([None, *PermissionMode]),
        model=st.sampled_from([None, "small", "large"]),
        effort=st.sampled_from([None, *ReasoningEffort]),
        pause=pauses,
    )
    def configure(self, mode: Any, model: Any, effort: Any, pause: Pause) -> None:
        self.system.command(commands.Configure(permission_mode=mode, model=model, effort=effort))
        self.go_on(pause)

    @rule(pause=pauses)
    def stop(self, pause: Pause) -> None:
        self.system.command(commands.Stop())
        self.go_on(pause)

    @rule(pause=pauses)
    def resume(self, pause: Pause) -> None:
        self.system.command(commands.Resume())
        self.go_on(pause)

    @rule(pause=pauses)
    def prewarm(self, pause: Pause) -> None:
        self.system.command(commands.Prewarm())
        self.go_on(pause)

    @rule(back=st.integers(0, 3), files=st.booleans(), pause=pauses)
    def rewind(self, back: int, files: bool, pause: Pause) -> None:
        self.system.rewind(back, files=files)
        self.go_on(pause)

    # -- other sessions

    @rule(back=st.none() | st.integers(0, 20), pause=pauses)
    def fork(self, back: int | None, pause: Pause) -> None:
        self.system.fork(back)
        self.go_on(pause)

    @rule(again=st.booleans(), pause=pauses)
    def import_conversation(self, again: bool, pause: Pause) -> None:
        """Import a new conversation, or one that may be a session already."""
        memory = self.system.memory
        stored = [*memory.conversations]
        self.system.import_conversation(stored[-1] if again and stored else memory.converse())
        self.go_on(pause)

    @rule(which=st.integers(0, 5))
    def steer_other_session(self, which: int) -> None:
        sessions = [*self.system.sessions]
        self.system.session = sessions[which % len(sessions)]

    @rule(pause=pauses)
    def delete(self, pause: Pause) -> None:
        self.system.delete()
        self.go_on(pause)

    # -- failures

    @rule(pause=pauses)
    def kill_agent(self, pause: Pause) -> None:
        for launch in [*self.system.memory.running]:
            launch.kill()
        self.go_on(pause)

    @rule(lose=st.booleans(), linger=st.integers(0, 6), down=pauses, pause=pauses)
    def kill_runner(self, lose: bool, linger: int, down: Pause, pause: Pause) -> None:
        system = self.system
        system.run(system.kill_runner(lose=lose, linger=linger))
        self.go_on(down)
        system.run(system.start_runner())
        self.go_on(pause)

    @rule(lose=st.booleans(), down=pauses, pause=pauses)
    def kill_hub(self, lose: bool, down: Pause, pause: Pause) -> None:
        system = self.system
        system.run(system.kill_hub(lose=lose))
        self.go_on(down)
        system.run(system.start_hub())
        self.go_on(pause)

    @rule(pause=pauses)
    def cut_link(self, pause: Pause) -> None:
        self.system.run(self.system.cut_link())
        self.go_on(pause)

    @precondition(lambda self: not self.system.was_set_back)
    @rule(protocol=st.sampled_from([OLDEST_PROTOCOL, PROTOCOL]), lose=st.booleans(), pause=pauses)
    def change_version(self, protocol: int, lose: bool, pause: Pause) -> None:
        """The runner is updated or set back to an earlier version: it speaks another protocol from now on."""
        system = self.system
        system.run(system.kill_runner(lose=lose, linger=0))
        system.protocol = protocol
        system.run(system.start_runner())
        self.go_on(pause)

    @rule(hub=st.booleans())
    def back_up(self, hub: bool) -> None:
        self.system.back_up(hub=hub)

    @rule(back=st.none() | st.integers(0, 3), lose=st.booleans(), down=pauses, pause=pauses)
    def restore_runner(self, back: int | None, lose: bool, down: Pause, pause: Pause) -> None:
        """Put an older journal back, or lose it."""
        system = self.system
        if not system.runner_backups.copies:
            back = None
        system.run(system.kill_runner(lose=lose, linger=0))
        self.go_on(down)
        system.run(system.restore_runner(back))
        system.run(system.start_runner())
        self.go_on(pause)

    @precondition(lambda self: self.system.hub_backups.copies)
    @rule(back=st.integers(0, 3), lose=st.booleans(), down=pauses, pause=pauses)
    def restore_hub(self, back: int, lose: bool, down: Pause, pause: Pause) -> None:
        system = self.system
        system.run(system.kill_hub(lose=lose))
        self.go_on(down)
        system.run(system.restore_hub(back))
        system.run(system.start_hub())
        system.check_epoch()
        self.go_on(pause)

    @rule(mode=st.sampled_from(START_MODES))
    def next_start(self, mode: str) -> None:
        self.system.memory.starts.append(mode)

    @rule(mode=st.sampled_from(RESTORE_MODES))
    def next_restore(self, mode: str) -> None:
        self.system.memory.restores.append(mode)

    @rule(pause=pauses)
    def agent_forgets(self, pause: Pause) -> None:
        """The agent deletes its conversations."""
        if not self.system.memory.running:
            self.system.memory.wipe()
        self.go_on(pause)

    @rule(pause=pauses)
    def wait(self, pause: Pause) -> None:
        self.go_on(pause)
