"""A session driven at random, every choice made by hypothesis, so that a failure shrinks to the steps it needs."""

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
from tests.endurance.agent import DOING, ENDING, RESTORING, STARTING, TAKING
from tests.endurance.world import World

# Mostly well-behaved, so that sessions get far enough for the rest to matter.
taking = st.one_of(st.just("take"), st.sampled_from(TAKING))
doing = st.one_of(
    st.just("say"),
    st.just("say,ask,say"),
    st.lists(st.sampled_from(DOING), min_size=1, max_size=3).map(",".join),
)
ending = st.one_of(st.just("end"), st.sampled_from(ENDING))
deliveries = st.sampled_from(Delivery)
outcomes = st.sampled_from([Outcome.APPROVED, Outcome.DENIED, Outcome.ABORT])
messages = st.tuples(taking, doing, ending, deliveries)
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
        self.world = World(self._root)
        self.sent = 0
        self.opened = False

    @initialize()
    def begin(self) -> None:
        self.world.__enter__()
        self.opened = True

    def teardown(self) -> None:
        try:
            if self.opened:
                self.world.__exit__()
        finally:
            shutil.rmtree(self._root)

    def go_on(self, pause: Pause) -> None:
        """Let some time pass, and see whether the promises hold."""
        type(self).steps += 1
        world, (act, time) = self.world, pause
        if isinstance(act, Outcome):
            for approval in world.ledger.asked[-1:]:
                world.respond(approval, Answer(outcome=act))
        elif act is not None:
            self._say(act)
        world.do(world.ticks(time) if isinstance(time, int) else world.wait(time))
        world.check()

    # -- messages

    def _say(self, message: Message) -> None:
        taking, doing, ending, delivery = message
        self.sent += 1
        self.world.send(f"m{self.sent}", f"{taking} {doing} {ending}", delivery)

    @rule(message=messages, pause=pauses)
    def send(self, message: Message, pause: Pause) -> None:
        self._say(message)
        self.go_on(pause)

    @rule(count=st.integers(2, 5), pause=pauses)
    def send_several(self, count: int, pause: Pause) -> None:
        for _ in range(count):
            self._say(("take", "say", "end", Delivery.QUEUE))
        self.go_on(pause)

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(0, 3), pause=pauses)
    def send_again(self, back: int, pause: Pause) -> None:
        """A client that had no answer."""
        name = f"m{max(1, self.sent - back)}"
        self.world.send(name, "", Delivery.QUEUE)
        self.go_on(pause)

    @precondition(lambda self: self.world.names)
    @rule(back=st.integers(0, 5), pause=pauses)
    def cancel(self, back: int, pause: Pause) -> None:
        self.world.cancel(self._item(back))
        self.go_on(pause)

    @precondition(lambda self: self.world.names)
    @rule(back=st.integers(0, 5), pause=pauses)
    def send_now(self, back: int, pause: Pause) -> None:
        self.world.send_now(self._item(back))
        self.go_on(pause)

    def _item(self, back: int) -> str:
        items = [*self.world.names.values()]
        return items[-1 - back % len(items)]

    # -- steering

    @rule(pause=pauses)
    def interrupt(self, pause: Pause) -> None:
        self.world.command(commands.Abort())
        self.go_on(pause)

    @precondition(lambda self: self.world.ledger.asked)
    @rule(which=st.integers(0, 3), outcome=outcomes, times=st.integers(1, 2), pause=pauses)
    def answer(self, which: int, outcome: Outcome, times: int, pause: Pause) -> None:
        """An open question, one that was answered long ago, or twice the same."""
        asked = self.world.ledger.asked
        for _ in range(times):
            self.world.respond(asked[-1 - which % len(asked)], Answer(outcome=outcome))
        self.go_on(pause)

    @rule(
        mode=st.sampled_from([None, *PermissionMode]),
        model=st.sampled_from([None, "small", "large"]),
        effort=st.sampled_from([None, *ReasoningEffort]),
        pause=pauses,
    )
    def configure(self, mode: Any, model: Any, effort: Any, pause: Pause) -> None:
        self.world.command(commands.Configure(permission_mode=mode, model=model, effort=effort))
        self.go_on(pause)

    @rule(pause=pauses)
    def stop(self, pause: Pause) -> None:
        self.world.command(commands.Stop())
        self.go_on(pause)

    @rule(pause=pauses)
    def resume(self, pause: Pause) -> None:
        self.world.command(commands.Resume())
        self.go_on(pause)

    @rule(pause=pauses)
    def warm(self, pause: Pause) -> None:
        self.world.command(commands.Prewarm())
        self.go_on(pause)

    @rule(back=st.integers(0, 3), files=st.booleans(), pause=pauses)
    def rewind(self, back: int, files: bool, pause: Pause) -> None:
        self.world.rewind(back, files=files)
        self.go_on(pause)

    # -- what goes wrong

    @rule(pause=pauses)
    def kill_agent(self, pause: Pause) -> None:
        for launch in [*self.world.memory.living]:
            launch.kill()
        self.go_on(pause)

    @rule(lose=st.booleans(), linger=st.integers(0, 6), down=pauses, pause=pauses)
    def kill_runner(self, lose: bool, linger: int, down: Pause, pause: Pause) -> None:
        world = self.world
        world.do(world.kill_runner(lose=lose, linger=linger))
        self.go_on(down)
        world.do(world.start_runner())
        self.go_on(pause)

    @rule(lose=st.booleans(), down=pauses, pause=pauses)
    def kill_hub(self, lose: bool, down: Pause, pause: Pause) -> None:
        world = self.world
        world.do(world.kill_hub(lose=lose))
        self.go_on(down)
        world.do(world.start_hub())
        self.go_on(pause)

    @rule(pause=pauses)
    def cut_link(self, pause: Pause) -> None:
        self.world.do(self.world.cut_link())
        self.go_on(pause)

    @rule(manner=st.sampled_from(STARTING))
    def next_start(self, manner: str) -> None:
        self.world.memory.starts.append(manner)

    @rule(manner=st.sampled_from(RESTORING))
    def next_restore(self, manner: str) -> None:
        self.world.memory.restores.append(manner)

    @rule(pause=pauses)
    def agent_forgets(self, pause: Pause) -> None:
        """Its own retention: the conversation is gone."""
        if not self.world.memory.living:
            self.world.memory.wipe()
        self.go_on(pause)

    @rule(pause=pauses)
    def wait(self, pause: Pause) -> None:
        self.go_on(pause)
